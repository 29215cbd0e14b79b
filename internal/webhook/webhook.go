package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/service"
)

// Config specifies where webhooks are stored, and what is sent.
type Config struct {
	Documents journal.Documents
	// Feed brings the entries of the engine, and Describer makes events from them.
	Feed      Feed
	Describer func() *service.Describer
	// Send is set where this process sends messages. Elsewhere webhooks are only managed: events wait in the journal,
	// and deliveries in the outbox, until a process sends them.
	Send bool
	// Allow has the addresses that are not on the public network and that messages may be sent to all the same.
	Allow []netip.Prefix
	// Now is the clock. Default: the wall clock.
	Now func() core.Time
	// Transport sends requests, in tests without a network. Default: connections that Allow checks.
	Transport http.RoundTripper
	// MostPending bounds the deliveries of one webhook that have not ended. Events beyond that are missed. Default:
	// 100,000, which cost about 15 MB of memory.
	MostPending int
	// Shared is set where other processes work on other runs of the same journal.
	Shared *Shared
	// Log gets errors that no caller sees. nil: nothing is logged.
	Log *slog.Logger
}

// Feed is the part of an engine that brings committed entries. See engine.API.
type Feed interface {
	BeginFeed(ctx context.Context, name string) error
	Feed(ctx context.Context, name string, fn func(partition int, seq uint64, entries []core.Entry) error) error
	DropFeed(ctx context.Context, name string) error
}

// defaultOverlap is how long messages are signed with an old secret too; longestOverlap bounds it. mostSecrets is how
// many secrets a webhook can have at once.
const (
	defaultOverlap = 24 * time.Hour
	longestOverlap = 30 * 24 * time.Hour
	mostSecrets    = 5
)

// Dispatcher keeps webhooks and their deliveries, and sends these.
//
// Locks are taken in this order: adding, change, mu.
type Dispatcher struct {
	cfg    Config
	guard  *guard
	client *http.Client

	adding sync.Mutex // held while a webhook is added or removed, since the first and the last one change the feed
	change sync.Mutex // held while documents are written, and then memory accordingly

	mu      sync.Mutex
	targets map[string]*target
	sending int           // requests at present
	wake    chan struct{} // wakes the loop that sends

	ctx     context.Context // ends with the dispatcher
	end     context.CancelFunc
	works   sync.WaitGroup
	results chan *result       // has room for all requests that run at once
	feeding context.CancelFunc // ends the reader of the feed; nil if there is none
	fed     chan struct{}      // closed when that reader has ended
}

var _ api.Webhooks = (*Dispatcher)(nil)

// New returns the dispatcher of an open engine and begins to send. Close it before the engine.
func New(ctx context.Context, cfg Config) (*Dispatcher, error) {
	if cfg.Now == nil {
		cfg.Now = func() core.Time { return core.Time(api.At(time.Now())) }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.MostPending <= 0 {
		cfg.MostPending = 100_000
	}
	d := &Dispatcher{
		cfg: cfg, guard: &guard{cfg.Allow}, targets: map[string]*target{}, wake: make(chan struct{}, 1),
		results: make(chan *result, inFlight),
	}
	if cfg.Transport == nil {
		cfg.Transport = d.guard.transport()
	}
	d.client = &http.Client{
		Transport: cfg.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // the other address might be a private one, or somebody else's
		},
	}
	if err := d.load(ctx); err != nil {
		return nil, err
	}
	d.ctx, d.end = context.WithCancel(context.Background())
	if !cfg.Send {
		return d, nil
	}
	d.works.Go(d.send)
	d.works.Go(d.record)
	if len(d.targets) > 0 {
		d.readFeed()
	}
	return d, nil
}

// Close stops sending. Messages that were being sent are sent again by the next process.
func (d *Dispatcher) Close() {
	d.adding.Lock()
	defer d.adding.Unlock()
	d.end()
	d.stopFeed()
	d.works.Wait()
	if rest := d.answered(); len(rest) > 0 {
		d.ended(rest)
	}
	d.client.CloseIdleConnections()
}

// load reads the stored webhooks, and forgets those that no longer exist. It is called while change is held, or by New.
func (d *Dispatcher) load(ctx context.Context) error {
	stored := map[string]*hook{}
	err := d.each(ctx, hookKeys, "", func(doc journal.Document) (bool, error) {
		h, err := decodeHook(doc)
		if err == nil {
			stored[h.Name] = h
		}
		return true, err
	})
	if err != nil {
		return err
	}
	d.mu.Lock()
	for name := range d.targets {
		if stored[name] == nil {
			delete(d.targets, name)
		}
	}
	for name, h := range stored {
		if t := d.targets[name]; t != nil {
			t.hook = h
		} else {
			d.targets[name] = newTarget(h)
		}
	}
	d.mu.Unlock()
	return d.loadPending(ctx)
}

// loadPending reads the deliveries that have not ended and that this process sends.
func (d *Dispatcher) loadPending(ctx context.Context) error {
	defer d.wakeSender()
	return d.each(ctx, pendingKeys, "", func(doc journal.Document) (bool, error) {
		name, id, _ := strings.Cut(strings.TrimPrefix(doc.Key, pendingKeys), "/")
		var next due
		if err := journal.DecodeDocument(doc.Value, documentVersion, &next); err != nil {
			return false, broken(doc.Key, err)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if t := d.targets[name]; t != nil && d.owns(id) { // else it was left when its webhook was removed
			t.add(id, next.At)
		}
		return true, nil
	})
}

// find returns a webhook in its present state.
func (d *Dispatcher) find(name string) (*target, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.targets[name]; t != nil {
		return t, nil
	}
	return nil, &api.Error{
		Code: api.CodeNotFound, Message: fmt.Sprintf("there is no webhook %q", name),
		Hint: "pawl webhook list shows them",
	}
}

func (d *Dispatcher) AddWebhook(ctx context.Context, r api.WebhookRequest) (api.Webhook, error) {
	h := &hook{Webhook: api.Webhook{
		Name: r.Name, URL: r.URL, Events: r.Events, Workflows: r.Workflows, Labels: r.Labels,
	}}
	if len(h.Events) == 0 {
		h.Events = slices.Clone(defaultEvents)
	}
	text := r.Secret
	if text == "" {
		text = newSecret()
	}
	var err error
	if h.Policy, err = policyOf(r.Policy); err != nil {
		return api.Webhook{}, err
	}
	if _, err := keyOf(text); err != nil {
		return api.Webhook{}, invalid("secret", "%v", err)
	}
	if err := errors.Join(checkName(h.Name), d.checkHook(h)); err != nil {
		return api.Webhook{}, firstOf(err)
	}
	h.Secrets = []secret{{Text: text}}
	d.adding.Lock()
	defer d.adding.Unlock()
	if _, err := d.find(h.Name); err == nil {
		return api.Webhook{}, &api.Error{
			Code: api.CodeConflict, Message: fmt.Sprintf("there is a webhook %q already", h.Name),
			Hint: "change it, or choose another name",
		}
	}
	if len(d.targets) >= mostWebhooks {
		return api.Webhook{}, &api.Error{
			Code: api.CodeFull, Message: fmt.Sprintf("there are %d webhooks, and can be no more", mostWebhooks),
		}
	}
	// The instant is taken before the engine is asked: whatever happens afterwards is later.
	h.CreatedAt = api.Time(d.cfg.Now())
	if err := d.beginFeed(ctx); err != nil {
		return api.Webhook{}, err
	}
	if err := d.create(ctx, h); err != nil {
		return api.Webhook{}, err
	}
	if d.cfg.Send && d.feeding == nil {
		d.readFeed()
	}
	d.tellOthers(ctx)
	out := h.public(d.cfg.Now())
	out.Secret = text
	return out, nil
}

// firstOf returns the first of joined errors, so that one problem is reported at a time.
func firstOf(err error) error {
	var own *api.Error
	errors.As(err, &own)
	return own
}

// checkHook checks what callers can set, but for name, policy and secrets.
func (d *Dispatcher) checkHook(h *hook) error {
	return errors.Join(d.checkURL(h.URL), checkEvents(h.Events), checkFilters(h.Workflows, h.Labels))
}

// create stores a new webhook.
func (d *Dispatcher) create(ctx context.Context, h *hook) error {
	d.change.Lock()
	defer d.change.Unlock()
	if err := d.clear(ctx, h.Name); err != nil { // another process may have left parts of an earlier webhook
		return err
	}
	if err := d.put(ctx, document(hookKey(h.Name), h)); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.targets[h.Name] = newTarget(h)
	d.wakeSender()
	return nil
}

// save changes a copy of a webhook and stores it. Nothing else changes the webhook from the copy on until that is done.
func (d *Dispatcher) save(ctx context.Context, t *target, fn func(h *hook) error) error {
	d.change.Lock()
	defer d.change.Unlock()
	h, err := d.latest(ctx, t)
	if err != nil {
		return err
	}
	if h == nil {
		return &api.Error{Code: api.CodeNotFound, Message: fmt.Sprintf("webhook %q was removed meanwhile", t.hook.Name)}
	}
	if err := fn(h); err != nil {
		return err
	}
	if err := d.put(ctx, document(hookKey(h.Name), h)); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	t.hook = h
	d.wakeSender()
	return nil
}

// latest returns a copy of a webhook, which another process may have changed, or nil if it was removed. It is called
// while change is held.
func (d *Dispatcher) latest(ctx context.Context, t *target) (*hook, error) {
	d.mu.Lock()
	h, current := *t.hook, d.targets[t.hook.Name] == t
	d.mu.Unlock()
	if !current {
		return nil, nil
	}
	if d.cfg.Shared == nil {
		return &h, nil
	}
	found, err := d.cfg.Documents.ReadDocuments(ctx, hookKey(h.Name))
	if err != nil || len(found) == 0 {
		return nil, storageError(err)
	}
	return decodeHook(found[0])
}

// current reports whether a webhook has not been removed.
func (d *Dispatcher) current(t *target) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.targets[t.hook.Name] == t
}

func (d *Dispatcher) Webhooks(ctx context.Context) ([]api.Webhook, error) {
	d.mu.Lock()
	names := slices.Sorted(maps.Keys(d.targets))
	d.mu.Unlock()
	all := make([]api.Webhook, 0, len(names))
	for _, name := range names {
		one, err := d.Webhook(ctx, name)
		if api.CodeOf(err) == api.CodeNotFound { // it was removed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// Counts returns what has happened to the deliveries of all webhooks, by name.
func (d *Dispatcher) Counts() []api.WebhookCounts {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]api.WebhookCounts, 0, len(d.targets))
	for _, name := range slices.Sorted(maps.Keys(d.targets)) {
		c := d.targets[name].counts
		c.Webhook, c.Pending = name, d.targets[name].pending
		out = append(out, c)
	}
	return out
}

func (d *Dispatcher) Webhook(ctx context.Context, name string) (api.Webhook, error) {
	t, err := d.find(name)
	if err != nil {
		return api.Webhook{}, err
	}
	d.mu.Lock()
	out := t.public(d.cfg.Now())
	d.mu.Unlock()
	if d.cfg.Shared != nil { // memory has only what this process sends
		out.Pending = 0
		err = d.each(ctx, pendingKeys+name+"/", "", func(journal.Document) (bool, error) {
			out.Pending++
			return true, nil
		})
	}
	return out, err
}

// edit changes a webhook. fn is called with a copy of it, while change is held.
func (d *Dispatcher) edit(ctx context.Context, name string, fn func(h *hook) error) error {
	t, err := d.find(name)
	if err == nil {
		err = d.save(ctx, t, fn)
	}
	if err == nil {
		d.tellOthers(ctx)
	}
	return err
}

func (d *Dispatcher) ChangeWebhook(ctx context.Context, name string, c api.WebhookChange) (api.Webhook, error) {
	err := d.edit(ctx, name, func(h *hook) error {
		if c.URL != "" {
			h.URL = c.URL
		}
		if c.Events != nil {
			h.Events = c.Events
		}
		if len(h.Events) == 0 {
			h.Events = slices.Clone(defaultEvents)
		}
		if c.Workflows != nil {
			h.Workflows = c.Workflows
		}
		if c.Labels != nil {
			h.Labels = c.Labels
		}
		if c.Policy != nil {
			var err error
			if h.Policy, err = policyOf(c.Policy); err != nil {
				return err
			}
		}
		switch {
		case c.Disabled == nil:
		case !*c.Disabled:
			h.Disabled, h.DisabledAt = "", 0
		case h.DisabledAt == 0:
			h.Disabled, h.DisabledAt = "an operator disabled it", api.Time(d.cfg.Now())
		}
		if err := d.checkHook(h); err != nil {
			return firstOf(err)
		}
		return nil
	})
	if err != nil {
		return api.Webhook{}, err
	}
	return d.Webhook(ctx, name)
}

func (d *Dispatcher) RotateSecret(ctx context.Context, name string, r api.Rotation) (api.Webhook, error) {
	text, overlap := r.Secret, defaultOverlap
	if text == "" {
		text = newSecret()
	}
	if r.Overlap != nil {
		overlap = r.Overlap.Std()
	}
	if _, err := keyOf(text); err != nil {
		return api.Webhook{}, invalid("secret", "%v", err)
	}
	if overlap < 0 || overlap > longestOverlap {
		return api.Webhook{}, invalid("overlap", "%s: give 0s to %s", api.Duration(overlap),
			api.Duration(longestOverlap))
	}
	err := d.edit(ctx, name, func(h *hook) error {
		now := d.cfg.Now()
		secrets := []secret{{Text: text}}
		for _, s := range h.Secrets {
			if s.Until == 0 {
				s.Until = now.Add(overlap)
			}
			if s.Until > now && s.Text != text && len(secrets) < mostSecrets {
				secrets = append(secrets, s)
			}
		}
		h.Secrets = secrets
		return nil
	})
	if err != nil {
		return api.Webhook{}, err
	}
	out, err := d.Webhook(ctx, name)
	out.Secret = text
	return out, err
}

// storageError makes an *api.Error of an error of the database.
func storageError(err error) error {
	var own *api.Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	return &api.Error{Code: engine.CodeOf(err), Err: err}
}
