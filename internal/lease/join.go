package lease

import (
	"context"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/policy"
)

const (
	// Silence is how long a holder may be silent.
	Silence = 10 * time.Second
	// broken is the same where its connection has ended while it waited for news: its process has probably died.
	broken = 2 * time.Second

	documentPrefix  = "bodies/" // + a name: what is known of a workflow
	documentEnd     = "bodies0"
	documentsAtOnce = 500

	atOnce  = 500 // things that are sent
	maxWait = time.Minute
)

// holder is a process that serves workflows, for as long as it is known. The keeper's lock guards its fields.
type holder struct {
	id, name string
	number   int // the number in the order of the joins
	serves   map[string]bool
	slots    int
	steps    room
	hooks    room
	leases   int
	leaving  bool

	queue []down // messages that it has not seen
	sent  uint64 // the number of the newest of them
	more  chan struct{}
	polls int
	alarm *time.Timer // ends its silence

	given   uint64 // number of its newest decisions
	answers *answers
}

// tell queues a message for the holder.
func (h *holder) tell(d down) {
	h.queue = append(h.queue, d)
	h.sent++
	if len(h.queue) == 1 {
		close(h.more)
		h.more = make(chan struct{})
	}
}

func (k *Keeper) JoinBodies(ctx context.Context, r api.BodiesJoin) error {
	all, err := k.read(&r)
	if err != nil {
		return err
	}
	if err := k.store(ctx, all); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.drained:
		return errDrained
	case k.holders[r.Holder] != nil:
		return nil
	}
	k.joins++
	h := &holder{
		id: r.Holder, name: r.Name, number: k.joins, serves: map[string]bool{}, slots: r.Slots,
		more: make(chan struct{}), steps: newRoom(), hooks: newRoom(),
	}
	h.alarm = time.AfterFunc(k.cfg.Silence, func() { k.silent(h) })
	for _, w := range all {
		k.workflows[w.Definition.Name] = w
		h.serves[w.Definition.Name] = true
	}
	k.holders[h.id] = h
	k.cfg.Log.Info("a process serves workflows", "process", h.name, "workflows", r.Workflows)
	for run, workflow := range k.waiting {
		if h.serves[workflow] {
			delete(k.waiting, run)
			k.engine.Consult(run)
		}
	}
	k.engine.Rematch() // hooks and local steps may have waited for it
	return nil
}

// read reads a process's description of its workflows.
func (k *Keeper) read(r *api.BodiesJoin) ([]*known, error) {
	wrong := func(format string, args ...any) error {
		return &api.Error{Code: api.CodeInvalid, Op: "serve", Message: fmt.Sprintf(format, args...)}
	}
	all, err := decodeWorkflows(r.Options)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 || len(all) != len(r.Workflows) {
		return nil, wrong("%d workflows are named and %d described", len(r.Workflows), len(all))
	}
	out := make([]*known, len(all))
	for i, w := range all {
		name := w.Definition.Name
		b, err := w.body()
		switch {
		case err != nil:
			return nil, wrong("%v", err)
		case name != r.Workflows[i]:
			return nil, wrong("workflow %d is named %q and described as %q", i+1, r.Workflows[i], name)
		case !kind.TraitsOf(w.Definition.Kind).Served:
			return nil, wrong("workflow %q is not a function of a program", name)
		}
		out[i] = &known{w, b}
	}
	return out, nil
}

// store stores the descriptions of workflows that have changed.
func (k *Keeper) store(ctx context.Context, all []*known) error {
	if k.cfg.Documents == nil {
		return nil
	}
	var changed []journal.Document
	for _, w := range all {
		value, err := encodeStored(&w.Served)
		if err != nil {
			return err
		}
		d := journal.Document{Key: documentPrefix + url.PathEscape(w.Definition.Name), Value: value}
		before, err := k.cfg.Documents.ReadDocuments(ctx, d.Key)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(before, func(b journal.Document) bool { return says(b.Value, &w.Served) }) {
			changed = append(changed, d)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return k.cfg.Documents.PutDocuments(ctx, changed...)
}

// says reports whether a document equals the description of a workflow.
func says(document []byte, w *Served) bool {
	before, err := decodeStored(document)
	return err == nil && reflect.DeepEqual(workflowOf(&before), workflowOf(w))
}

// find returns a holder.
func (k *Keeper) find(id string) (*holder, error) {
	h := k.holders[id]
	switch {
	case h != nil:
		return h, nil
	case k.drained:
		return nil, errDrained
	default:
		return nil, &api.Error{
			Code: api.CodeStale, Op: "serve", Hint: "join again",
			Message: "this process is not known here: it was silent for too long, or the server was started again",
		}
	}
}

// BodiesNodes implements api.Bodies: it is the only one.
func (k *Keeper) BodiesNodes(ctx context.Context, r api.BodiesNodesRequest) (api.BodiesNodes, error) {
	wait := time.NewTimer(min(r.Wait.Std(), maxWait))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-k.over:
	case <-ctx.Done():
		return api.BodiesNodes{}, &api.Error{Code: api.CodeCancelled, Op: "serve", Err: ctx.Err()}
	}
	return api.BodiesNodes{Nodes: []string{}}, nil
}

func (k *Keeper) TakeNews(ctx context.Context, r api.NewsRequest) (api.News, error) {
	k.mu.Lock()
	h, err := k.find(r.Holder)
	if err == nil && (r.Seen > h.sent || r.Seen < h.sent-uint64(len(h.queue))) {
		err = &api.Error{Code: api.CodeInvalid, Op: "serve", Message: fmt.Sprintf(
			"it has seen %d, of news %d to %d", r.Seen, h.sent-uint64(len(h.queue)), h.sent)}
	}
	if err != nil {
		k.mu.Unlock()
		return api.News{}, err
	}
	h.queue = h.queue[len(h.queue)-int(h.sent-r.Seen):]
	h.polls++
	h.alarm.Stop()
	empty, more := len(h.queue) == 0, h.more
	k.mu.Unlock()

	if empty {
		wait := time.NewTimer(min(r.Wait.Std(), maxWait))
		defer wait.Stop()
		select {
		case <-more:
		case <-wait.C:
		case <-k.over:
		case <-ctx.Done():
		}
	}
	unseen, err := k.unseen(ctx, h, r.Seen)
	if err != nil || len(unseen) == 0 {
		return api.News{Number: r.Seen}, err
	}
	b, n, err := encodeDowns(unseen)
	return api.News{Number: r.Seen + uint64(n), News: b}, err
}

// unseen ends the wait of a holder, and returns what it has not seen.
func (k *Keeper) unseen(ctx context.Context, h *holder, seen uint64) ([]down, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h.polls--
	if h.polls == 0 && k.holders[h.id] == h && !k.drained {
		silence := k.cfg.Silence
		if ctx.Err() != nil {
			silence = min(silence, broken)
		}
		h.alarm.Reset(silence)
	}
	if err := ctx.Err(); err != nil {
		return nil, &api.Error{Code: api.CodeCancelled, Op: "serve", Err: err}
	}
	if _, err := k.find(h.id); err != nil {
		return nil, err
	}
	first := h.sent - uint64(len(h.queue))
	if seen < first { // another request has seen more meanwhile
		return nil, nil
	}
	all := h.queue[seen-first:]
	return slices.Clone(all[:min(len(all), atOnce)]), nil
}

// silent ends a holder that was silent for too long.
func (k *Keeper) silent(h *holder) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h.polls > 0 || k.drained || k.holders[h.id] != h {
		return
	}
	k.cfg.Log.Warn("a process that serves workflows is silent; others go on with its runs", "process", h.name)
	k.remove(h)
}

// leave ends the leases of a holder. Others go on with the runs. Attempts go on.
func (k *Keeper) leave(h *holder) {
	h.leaving = true
	for run, l := range k.leases {
		if l.holder == h {
			k.end(run, l)
			k.engine.Consult(run)
		}
	}
	for run, wanting := range k.wanting {
		if wanting == h {
			delete(k.wanting, run)
		}
	}
}

// remove forgets a holder. Its attempts are lost.
func (k *Keeper) remove(h *holder) {
	k.leave(h)
	h.alarm.Stop()
	delete(k.holders, h.id)
	close(h.more)
	h.more = make(chan struct{})
	for tok, t := range k.tasks {
		if t.holder != h {
			continue
		}
		delete(k.tasks, tok)
		if t.revoked {
			k.engine.Report(tok.Run, core.TaskStopped{Step: tok.Step, Attempt: tok.Attempt, Abandoned: true})
			continue
		}
		k.engine.Report(tok.Run, core.TaskEnded{Step: tok.Step, Attempt: tok.Attempt, Failure: &policy.Failure{
			Kind: policy.KindLost, Type: "worker_silent", Message: "the process that serves the workflow has gone",
		}})
	}
}
