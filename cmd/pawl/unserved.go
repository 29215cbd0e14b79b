package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
	"github.com/pawl-dev/pawl/internal/worker"
)

// warnOfTasks prints which steps of a flow this command does not execute: tasks of types that it does not know, or of
// other queues. Workers in other processes may still start, so this does not mean that they wait forever. Steps that
// have ended, in the run, are left out; a nil run has none.
func (a *app) warnOfTasks(c *compiled, r *api.Run) {
	here := flowkind.Executors(worker.ExecConfig{})
	for s := range specs(c.Def) {
		if s.Kind != core.KindTask || s.Type == "" || hasEnded(r, s.Name) { // an item of a loop is a value
			continue
		}
		if _, known := here[s.Type]; known && s.Queue == "" {
			continue
		}
		about := fmt.Sprintf("a worker of %q tasks", s.Type)
		if s.Queue != "" {
			about += fmt.Sprintf(" on the queue %q", s.Queue)
		}
		fmt.Fprintf(a.Err, "pawl: step %q waits for %s; this command does not execute it\n", screen.Clean(s.Name),
			screen.Clean(about))
	}
}

func hasEnded(r *api.Run, step string) bool {
	return r != nil && slices.ContainsFunc(r.Steps, func(s *api.Step) bool {
		return s.Step == step && s.Phase.Closed() && !s.Superseded
	})
}

// warnOfOpenTasks prints which open steps of runs this command does not execute, once for each of their flows.
func (a *app) warnOfOpenTasks(ctx context.Context, svc api.Service, runs []string) {
	told := map[string]bool{}
	for _, id := range runs {
		r, err := svc.Run(ctx, id)
		if err != nil || told[r.Definition] {
			continue // the process that carries it on reports what is wrong
		}
		told[r.Definition] = true
		if c, err := a.definitionOf(ctx, svc, r.Definition); err == nil && c.Flow != nil {
			a.warnOfTasks(c, r)
		}
	}
}
