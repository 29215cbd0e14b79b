package conformance

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
)

func init() { addGo("D7", handlersShareAList) }

// Updates that two kinds of handlers take, many at once.
const (
	assign pawl.Update[int, int] = "assign"
	remove pawl.Update[int, int] = "remove"
)

// handlersShareAList checks that handlers of updates, a timer and a branch can share a variable: each does a step and
// adds to a list, and the next steps are named after it. Many ends come at the same instant.
func handlersShareAList(t *testing.T) {
	w := pawl.Define("list", func(ctx pawl.Context, _ nothing) (string, error) {
		var list []int
		add := func(ctx pawl.Context, v int) (int, error) {
			_, err := pawl.Step(ctx, "call", func(ctx context.Context) (int, error) {
				select {
				case <-time.After(time.Duration(v%3) * time.Second):
				case <-ctx.Done():
				}
				return v, nil
			})
			list = append(list, v)
			return len(list), err
		}
		futures := []*pawl.Future[nothing]{}
		for range 3 {
			futures = append(futures, assign.HandleAsync(ctx, nil, add), remove.HandleAsync(ctx, nil, add))
		}
		tick := pawl.Go(ctx, "tick", func(ctx pawl.Context) (nothing, error) {
			for i := range 3 {
				if err := pawl.Sleep(ctx, fmt.Sprintf("after %v", len(list)), time.Second); err != nil {
					return nothing{}, err
				}
				list = append(list, -i)
			}
			return nothing{}, nil
		})
		for _, f := range append(futures, tick) {
			if _, err := f.Get(ctx); err != nil {
				return "", err
			}
		}
		all := ""
		for _, v := range list {
			all += fmt.Sprint(v, " ")
		}
		return pawl.Step(ctx, "all of "+all, func(context.Context) (string, error) { return all, nil })
	})
	goEnv(t, func(t *testing.T, e goProgram) {
		if _, err := w.Start(t.Context(), e, "r", nothing{}); err != nil {
			t.Fatal(err)
		}
		answers := make(chan error, 6)
		for i := range 3 {
			send := func(u pawl.Update[int, int], v int) {
				_, err := u.Send(context.WithoutCancel(t.Context()), e, "r", v, pawl.SendID(fmt.Sprint(v)))
				answers <- err
			}
			go send(assign, i)
			go send(remove, i+10)
		}
		for range 6 {
			if err := <-answers; err != nil {
				t.Fatal(err)
			}
		}
		e.Restart()
		e.Skip(time.Minute)
		e.WantPhase("r", client.PhaseSucceeded)
	}, w)
}
