package capture

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/pawl-dev/pawl"
)

type order struct {
	ID    string
	Lines []string
	Notes map[string]string
}

var seen int

func body(ctx pawl.Context, in order) (out string, err error) {
	total, notes := 0, map[string]string{}
	p := &in
	err = pawl.Do(ctx, "sum", func(ctx context.Context) error {
		total = 5                  // want `the step writes total, a variable of the body, which is lost when the body is called again: return the value from the step's function`
		total++                    // want `the step writes total`
		in.ID = "x"                // want `the step writes in`
		p.ID = "x"                 // want `the step writes p`
		in.Lines[0] = "x"          // want `the step writes in`
		notes["a"] = "b"           // want `the step writes notes`
		delete(notes, "a")         // want `the step writes notes`
		out, err := "x", ctx.Err() // variables of its own
		_ = out
		seen++ // not of the run
		return err
	})
	if err != nil {
		return "", err
	}
	var row *sql.Row
	var name string
	if err := pawl.Do(ctx, "scan", func(context.Context) error {
		_ = json.Unmarshal(nil, &in) // want `the step writes in`
		return row.Scan(&name)       // want `the step writes name`
	}); err != nil {
		return "", err
	}

	var all []*pawl.Future[int]
	results, counts := make([]int, 2), map[int]int{}
	for i := range results {
		all = append(all, pawl.Go(ctx, "branch", func(ctx pawl.Context) (int, error) {
			results[i] = i // an element of its own
			counts[i] = i  // want `the branch writes counts`
			total += i     // want `the branch writes total, a variable of the body, while other code may use it: return the value from the branch's function`
			own := 1
			own++
			return pawl.Step(ctx, "inner", func(context.Context) (int, error) {
				own++ // want `the step writes own`
				return own, nil
			})
		}))
	}
	if _, err := pawl.All(ctx, all...); err != nil {
		return "", err
	}
	return out, err
}

type shop struct{ calls int }

func (s *shop) body(ctx pawl.Context, in order) (int, error) {
	sum := 0
	run := func(name string, fn func() error) error {
		return pawl.Do(ctx, name, func(context.Context) error { return fn() })
	}
	if err := run("a", func() error {
		sum++ // want `the step writes sum`
		return nil
	}); err != nil {
		return 0, err
	}
	each(in.Lines, func(string) { sum++ })
	return sum, pawl.Do(ctx, "count", func(context.Context) error {
		s.calls++ // lives longer than the run
		each(in.Lines, func(string) {
			sum++ // want `the step writes sum`
		})
		return nil
	})
}

func each(list []string, fn func(string)) {
	for _, line := range list {
		fn(line)
	}
}

// counted is a test's: what is counted is not the run's.
func counted() (*int, *pawl.Workflow[int, int]) {
	calls := 0
	return &calls, pawl.Define("w", func(ctx pawl.Context, in int) (int, error) {
		return pawl.Step(ctx, "s", func(context.Context) (int, error) {
			calls++
			return calls, nil
		})
	})
}
