package wire

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/cluster"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/remote"
)

// Others are the other nodes as the services of this one need them. They know none before Attach.
type Others struct {
	nodes  *Nodes
	own    string
	member atomic.Pointer[cluster.Member]
	next   atomic.Uint64
}

// NewOthers returns the nodes beside the one with an id.
func NewOthers(nodes *Nodes, own string) *Others { return &Others{nodes: nodes, own: own} }

// Attach sets which node this is, once it has joined.
func (o *Others) Attach(m *cluster.Member) { o.member.Store(m) }

func (o *Others) Owner(partition int) api.Node {
	if c := o.owner(partition); c != nil {
		return c
	}
	return nil
}

// owner returns the client of the node that owns a partition, if that is another one than this.
func (o *Others) owner(partition int) *httpapi.Client {
	m := o.member.Load()
	if m == nil {
		return nil
	}
	n, ok := m.OwnerOf(partition)
	if !ok || n.ID == o.own {
		return nil
	}
	c, err := o.nodes.Client(n)
	if err != nil {
		return nil // a node cannot join with such an address
	}
	return c
}

func (o *Others) Anyone() api.Node {
	for i := range o.stand().Partitions {
		if c := o.owner(i); c != nil {
			return c
		}
	}
	return nil
}

func (o *Others) stand() cluster.Snapshot {
	if m := o.member.Load(); m != nil {
		return m.Snapshot()
	}
	return cluster.Snapshot{}
}

// Failing returns why this node is not a sound part of the cluster at present, or nil if it is, or has not joined yet.
func (o *Others) Failing() error {
	if m := o.member.Load(); m != nil {
		return m.Failing()
	}
	return nil
}

func (o *Others) Changed() <-chan struct{} {
	if m := o.member.Load(); m != nil {
		return m.Changed()
	}
	return nil
}

func (o *Others) Asks(ctx context.Context) bool { return forwarded(ctx) }

// peer is another node.
type peer struct {
	id string
	*httpapi.Client
}

// working returns the other nodes that have partitions, in the order of their ids.
func (o *Others) working() (out []peer) {
	s := o.stand()
	for _, n := range s.Nodes {
		owns := slices.ContainsFunc(s.Partitions, func(p cluster.Partition) bool { return p.Owner == n.ID && p.Alive })
		if n.ID == o.own || !n.Alive || !owns {
			continue
		}
		if c, err := o.nodes.Client(n); err == nil {
			out = append(out, peer{n.ID, c})
		}
	}
	return out
}

// alive returns the ids of the nodes that are alive, this one among them, in order.
func (o *Others) alive() []string {
	out := []string{}
	for _, n := range o.stand().Nodes {
		if n.Alive {
			out = append(out, n.ID)
		}
	}
	return out
}

// named returns a node that is alive; ok is false if there is none with that id.
func (o *Others) named(id string) (c *httpapi.Client, ok bool) {
	for _, n := range o.stand().Nodes {
		if n.ID == id && n.Alive {
			c, err := o.nodes.Client(n)
			return c, err == nil
		}
	}
	return nil, false
}

// Expect tells the owner of a partition that messages were sent to it.
func (o *Others) Expect(partition int) {
	m := o.member.Load()
	if m == nil {
		return
	}
	if n, ok := m.OwnerOf(partition); ok && n.ID != o.own {
		o.nodes.Expect(n, partition)
	}
}

// WebhooksChanged tells the other nodes to read webhooks and deliveries again.
func (o *Others) WebhooksChanged(ctx context.Context) { o.nodes.Webhooks(ctx, o.own, o.stand()) }

// Tasks are the task queues of all nodes. A poll takes what this node has first. While it waits, it asks one other node
// after the other, so that a worker needs to know one node only.
type Tasks struct {
	own         api.Tasks
	partitionOf func(core.RunID) int
	others      *Others
}

// NewTasks returns the queues of all nodes; own are those of this one.
func NewTasks(own api.Tasks, partitionOf func(core.RunID) int, others *Others) *Tasks {
	return &Tasks{own, partitionOf, others}
}

// askEvery is how long a poll waits for tasks of this node before it asks the next other one.
const askEvery = 250 * time.Millisecond

func (t *Tasks) Poll(ctx context.Context, r api.PollRequest) ([]api.Task, error) {
	if forwarded(ctx) {
		return t.own.Poll(ctx, r) // another node asks, and it asks all of them itself
	}
	until := time.Now().Add(time.Duration(r.Wait))
	for turn := t.others.next.Add(1); ; turn++ {
		others := t.others.working()
		short := r
		short.Wait = api.Duration(max(0, time.Until(until)))
		if len(others) > 0 {
			short.Wait = min(short.Wait, api.Duration(askEvery))
		}
		tasks, err := t.own.Poll(ctx, short)
		if err != nil || len(tasks) > 0 {
			return tasks, err
		}
		if len(others) > 0 {
			ask := r
			ask.Wait = 0
			tasks, err = others[turn%uint64(len(others))].Poll(ctx, ask)
			if err == nil && len(tasks) > 0 {
				return tasks, nil
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, &api.Error{Code: api.CodeCancelled, Op: "poll", Err: err}
		}
		if !time.Now().Before(until) {
			return nil, nil
		}
	}
}

// Report implements api.Tasks. Reports go to where their runs are.
func (t *Tasks) Report(ctx context.Context, reports []api.TaskReport) ([]api.TaskAnswer, error) {
	answers := make([]api.TaskAnswer, len(reports))
	places := map[api.Tasks][]int{}
	for i := range reports {
		to := t.own
		if tok, ok := remote.TokenOf(reports[i].Task); ok {
			if owner := t.others.owner(t.partitionOf(tok.Run)); owner != nil {
				to = owner
			}
		}
		places[to] = append(places[to], i)
	}
	for to, which := range places {
		part := make([]api.TaskReport, len(which))
		for k, i := range which {
			part[k] = reports[i]
		}
		got, err := to.Report(ctx, part)
		for k, i := range which {
			if err != nil {
				answers[i].Error = asError(err)
				continue
			}
			answers[i] = got[k]
		}
	}
	return answers, nil
}

func asError(err error) *api.Error {
	return &api.Error{Code: api.CodeOf(err), Message: err.Error(), Hint: "report it again"}
}
