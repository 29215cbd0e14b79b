package wire

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// Changes reports what happens in the runs of all nodes: it follows each and puts their streams together. The id of a
// change has the place in the stream of each node, so that a caller can go on at any of them.
type Changes struct {
	own      api.Changes
	others   *Others
	patience time.Duration
}

var _ api.Changes = (*Changes)(nil)

// NewChanges returns the changes of all nodes; own are those of this one. patience is how long a node that has
// partitions may not answer.
func NewChanges(own api.Changes, others *Others, patience time.Duration) *Changes {
	return &Changes{own, others, patience}
}

func (c *Changes) Changes(ctx context.Context, q api.Query, after string, fn func(api.Change) error) error {
	if forwarded(ctx) {
		return c.own.Changes(ctx, q, after, fn) // asked by a node that follows all of them
	}
	ctx, cancel := context.WithCancel(ctx)
	f := &following{
		Changes: c, query: q, goesOn: after != "", from: placesOf(after), sources: map[string]*source{},
		news: make(chan news), open: make(chan struct{}),
	}
	defer f.running.Wait()
	defer cancel()
	changed := c.others.Changed()
	f.attune(ctx)
	for {
		if err := f.begin(fn); err != nil {
			return err
		}
		select {
		case n := <-f.news:
			if err := f.take(n, fn); err != nil {
				return err
			}
		case <-changed:
			changed = c.others.Changed()
			f.attune(ctx)
		case <-ctx.Done():
			return &api.Error{Code: api.CodeCancelled, Err: ctx.Err()}
		}
	}
}

// following is one call of Changes.
type following struct {
	*Changes
	query  api.Query
	goesOn bool              // the caller has followed before,
	from   map[string]string // up to here in the stream of each node

	sources map[string]*source // the sources by the id of the node
	news    chan news
	open    chan struct{} // closed when each source has said where it begins
	opened  bool
	missed  bool // some of the earlier changes are no longer kept
	running sync.WaitGroup
}

// source is the stream of one node.
type source struct {
	node   string
	of     api.Changes
	end    context.CancelFunc
	place  string // the id of the last change that it brought; empty if it has not begun
	mayEnd bool   // its node may go: it is another one than this
}

// news are what a source brings.
type news struct {
	of     *source
	change api.Change
	err    error // why it ends
}

// attune follows the nodes that have partitions, and no others.
func (f *following) attune(ctx context.Context) {
	nodes := map[string]api.Changes{f.others.own: f.own}
	for _, p := range f.others.working() {
		nodes[p.id] = p
	}
	for id, s := range f.sources {
		if nodes[id] == nil {
			s.end()
			delete(f.sources, id)
		}
	}
	for id, c := range nodes {
		if f.sources[id] == nil {
			s := &source{node: id, of: c, mayEnd: id != f.others.own}
			f.sources[id] = s
			var own context.Context
			own, s.end = context.WithCancel(ctx)
			f.running.Go(func() { f.read(own, s) })
		}
	}
}

// begin reports where the stream begins, once all sources have.
func (f *following) begin(fn func(api.Change) error) error {
	if f.opened {
		return nil
	}
	for _, s := range f.sources {
		if s.place == "" {
			return nil
		}
	}
	f.opened = true
	close(f.open)
	return fn(api.Change{ID: f.place(), Missed: f.missed})
}

// take reports what a source brings.
func (f *following) take(n news, fn func(api.Change) error) error {
	s := n.of
	if f.sources[s.node] != s { // its node is gone
		return nil
	}
	if n.err != nil {
		return n.err
	}
	begins := s.place == ""
	s.place = n.change.ID
	switch {
	case !f.opened:
		f.missed = f.missed || n.change.Missed || f.goesOn && f.from[s.node] == ""
		return nil
	case begins: // its node did this before it was followed
		n.change = api.Change{Missed: true}
	case n.change.Event == nil && !n.change.Missed: // it goes on
		return nil
	}
	n.change.ID = f.place()
	return fn(n.change)
}

// read passes on the changes of a source. It begins the stream of another node again where it breaks, for as long as
// that node has partitions, or patience lasts.
func (f *following) read(ctx context.Context, s *source) {
	place := f.from[s.node]
	var broken time.Time // the time since which it does not work
	bring := func(n news) error {
		n.of = s
		select {
		case f.news <- n:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for {
		began := time.Now()
		err := s.of.Changes(ctx, f.query, place, func(c api.Change) error {
			if err := bring(news{change: c}); err != nil {
				return err
			}
			place = c.ID
			select {
			case <-f.open:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if ctx.Err() != nil {
			return
		}
		if code := api.CodeOf(err); !s.mayEnd || code == api.CodeInvalid || code == api.CodeLapsed {
			_ = bring(news{err: err}) // else nobody waits for it
			return
		}
		if broken.IsZero() || time.Since(began) > f.patience { // a stream that lasts for so long has worked
			broken = time.Now()
		}
		if time.Since(broken) > f.patience {
			_ = bring(news{err: &api.Error{
				Code: api.CodeHeld, Hint: "follow again from the last change",
				Err: fmt.Errorf("the node %s does not report what happens in its runs: %w", s.node, err),
			}})
			return
		}
		pause := time.NewTimer(followPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
	}
}

// followPause is how long a stream of another node that broke is left alone.
const followPause = 100 * time.Millisecond

// place returns the place in the streams of all nodes.
func (f *following) place() string {
	parts := make([]string, 0, len(f.sources))
	for _, id := range slices.Sorted(maps.Keys(f.sources)) {
		if place := f.sources[id].place; place != "" {
			parts = append(parts, id+"="+place)
		}
	}
	return strings.Join(parts, ",")
}

// placesOf reads what place returned.
func placesOf(id string) map[string]string {
	out := map[string]string{}
	for part := range strings.SplitSeq(id, ",") {
		if node, place, ok := strings.Cut(part, "="); ok {
			out[node] = place
		}
	}
	return out
}
