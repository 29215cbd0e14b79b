package facetest

import (
	"context"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
)

// TestReadWhileAChainGoesOn checks that the workflow id of a chain never means a run that another one has followed.
func TestReadWhileAChainGoesOn(t *testing.T) {
	const runs = 2000
	w := pawl.Define("chained", func(ctx pawl.Context, n int) (int, error) {
		if n < runs {
			return n, pawl.ContinueAsNew(ctx, n+1)
		}
		return n, nil
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		run, err := w.Start(t.Context(), e, "chain", 0)
		if err != nil {
			t.Fatal(err)
		}
		ctx, ended := context.WithCancel(t.Context())
		defer ended()
		reads := map[string]func() (string, error){
			"describe": func() (string, error) {
				d, err := e.DescribeRun(ctx, "chain")
				return string(d.Phase), err
			},
			"explain": func() (string, error) {
				d, err := e.Explain(ctx, "chain")
				if err != nil {
					return "", err
				}
				return string(d.Phase), nil
			},
		}
		for name, read := range reads {
			go func() {
				for ctx.Err() == nil {
					phase, err := read()
					if err != nil && ctx.Err() == nil || phase == "continued" {
						t.Errorf("%s: %q, %v", name, phase, err)
						return
					}
				}
			}()
		}
		if n, err := run.Result(t.Context()); err != nil || n != runs {
			t.Errorf("%d, %v", n, err)
		}
		for name, read := range reads { // thousands of its runs have begun at one instant
			if phase, err := read(); phase != "succeeded" {
				t.Errorf("%s after the end: %q, %v", name, phase, err)
			}
		}
	}, w)
}
