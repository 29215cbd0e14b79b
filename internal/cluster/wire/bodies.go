package wire

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// Bodies lets processes that serve workflows join each node through any one.
type Bodies struct {
	own    api.Bodies
	others *Others
}

var _ api.Bodies = (*Bodies)(nil)

// NewBodies returns the bodies of all nodes; own are those of this one.
func NewBodies(own api.Bodies, others *Others) *Bodies { return &Bodies{own, others} }

// longestWait bounds how long a process may wait for other nodes.
const longestWait = time.Minute

func (b *Bodies) BodiesNodes(ctx context.Context, r api.BodiesNodesRequest) (api.BodiesNodes, error) {
	wait := time.NewTimer(min(r.Wait.Std(), longestWait))
	defer wait.Stop()
	for {
		changed := b.others.Changed()
		out := api.BodiesNodes{Nodes: b.others.alive()}
		if len(out.Nodes) == 0 {
			return out, &api.Error{
				Code: api.CodeHeld, Op: "serve", Message: "this node has not joined its cluster yet", Hint: "ask again",
			}
		}
		if !slices.Equal(out.Nodes, r.Known) {
			return out, nil
		}
		select {
		case <-changed:
		case <-wait.C:
			return out, nil
		case <-ctx.Done():
			return out, &api.Error{Code: api.CodeCancelled, Op: "serve", Err: ctx.Err()}
		}
	}
}

// of returns the bodies of a node.
func (b *Bodies) of(node string) (api.Bodies, error) {
	if node == "" || node == b.others.own {
		return b.own, nil
	}
	if c, ok := b.others.named(node); ok {
		return c, nil
	}
	return nil, &api.Error{
		Code: api.CodeStale, Op: "serve", ID: node, Message: fmt.Sprintf("the node %s is not there any more", node),
		Hint: "ask which nodes there are, and join these",
	}
}

func (b *Bodies) JoinBodies(ctx context.Context, r api.BodiesJoin) error {
	to, err := b.of(r.Node)
	if err != nil {
		return err
	}
	return to.JoinBodies(ctx, r)
}

func (b *Bodies) TakeNews(ctx context.Context, r api.NewsRequest) (api.News, error) {
	to, err := b.of(r.Node)
	if err != nil {
		return api.News{}, err
	}
	return to.TakeNews(ctx, r)
}

func (b *Bodies) GiveDecisions(ctx context.Context, r api.Decisions) (api.DecisionAnswers, error) {
	to, err := b.of(r.Node)
	if err != nil {
		return api.DecisionAnswers{}, err
	}
	return to.GiveDecisions(ctx, r)
}
