package bulk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// list is a service that lists runs by pages and notes what is done to them.
type list struct {
	api.Service
	runs    []string
	queries []api.Query
	done    []string
	refuse  map[string]error
}

func (l *list) Runs(_ context.Context, q api.Query) (api.Page, error) {
	l.queries = append(l.queries, q)
	from := 0
	if q.Cursor != "" {
		fmt.Sscan(q.Cursor, &from)
	}
	var p api.Page
	for i := from; i < len(l.runs) && i < from+q.Limit; i++ {
		p.Runs = append(p.Runs, api.RunSummary{Run: l.runs[i], Workflow: "w", Phase: api.RunRunning})
	}
	if n := from + len(p.Runs); n < len(l.runs) {
		p.Next = fmt.Sprint(n)
	}
	return p, nil
}

func (l *list) Operate(_ context.Context, run string, op api.Operation) error {
	if err := l.refuse[run]; err != nil {
		return err
	}
	l.done = append(l.done, run+" "+op.Operation)
	return nil
}

func newList(n int) *list {
	l := &list{}
	for i := range n {
		l.runs = append(l.runs, fmt.Sprint("r", i))
	}
	return l
}

// TestLimits checks that all runs are taken, over pages, the oldest first; the limit takes the newest of them.
func TestLimits(t *testing.T) {
	for _, c := range []struct{ runs, limit, want int }{
		{0, 0, 0}, {3, 0, 3}, {150, 0, 100}, {1234, 2000, 1234}, {1234, 1100, 1100}, {10, 1, 1}, {7, 7, 7},
	} {
		l := newList(c.runs)
		var told []string
		r := Request{Operation: api.Operation{Operation: api.OpPause}, Limit: c.limit, Query: api.Query{
			Workflow: "w", Limit: 1, Cursor: "5",
		}}
		err := Apply(t.Context(), l, r, func(r Result) error { told = append(told, r.Run+" pause"); return nil })
		if err != nil || len(told) != c.want || !slices.Equal(told, l.done) {
			t.Errorf("%+v: %d told, %d done, %v", c, len(told), len(l.done), err)
		}
		if c.want > 0 && (told[0] != fmt.Sprintf("r%d pause", c.want-1) || told[c.want-1] != "r0 pause") {
			t.Errorf("%+v: %s to %s", c, told[0], told[c.want-1])
		}
		for _, q := range l.queries {
			if q.Workflow != "w" {
				t.Errorf("%+v", q)
			}
		}
	}
}

// TestDryRun checks that a dry run tells the runs and does nothing.
func TestDryRun(t *testing.T) {
	l := newList(5)
	n := 0
	r := Request{Operation: api.Operation{Operation: api.OpCancelGracefully}, DryRun: true, Over: time.Hour}
	err := Apply(t.Context(), l, r, func(r Result) error {
		if n++; r.Done || r.Code != "" {
			t.Errorf("%+v", r)
		}
		return nil
	})
	if err != nil || n != 5 || len(l.done) != 0 {
		t.Errorf("%d told, done %v, %v", n, l.done, err)
	}
}

// TestRefusals checks that the refusal of one run is told and the others go on, and that an error that concerns all
// of them ends the list.
func TestRefusals(t *testing.T) {
	l := newList(4)
	l.refuse = map[string]error{"r2": &api.Error{Code: api.CodeRunClosed, Message: "it has ended"}}
	var told []string
	fn := func(r Result) error {
		told = append(told, fmt.Sprint(r.Run, r.Done, string(r.Code), r.Message))
		return nil
	}
	r := Request{Operation: api.Operation{Operation: api.OpCancelGracefully}}
	if err := Apply(t.Context(), l, r, fn); err != nil {
		t.Error(err)
	}
	if want := []string{"r3true", "r2falserun_closedit has ended", "r1true", "r0true"}; !slices.Equal(told, want) {
		t.Errorf("%q", told)
	}
	l, told = newList(4), nil
	l.refuse = map[string]error{"r2": &api.Error{Code: api.CodeStalled, Message: "full"}}
	if err := Apply(t.Context(), l, r, fn); api.CodeOf(err) != api.CodeStalled || len(told) != 1 {
		t.Errorf("%q, %v", told, err)
	}
	enough := errors.New("enough")
	l = newList(4)
	err := Apply(t.Context(), l, r, func(Result) error { return enough })
	if !errors.Is(err, enough) || len(l.done) != 1 {
		t.Errorf("%v, %v", l.done, err)
	}
}

// TestSpread checks that operations are spread evenly, and stop with the caller.
func TestSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newList(11)
		from := time.Now()
		var at []time.Duration
		r := Request{Operation: api.Operation{Operation: api.OpCancelGracefully}, Over: 10 * time.Minute}
		note := func(Result) error { at = append(at, time.Since(from)); return nil }
		if err := Apply(t.Context(), l, r, note); err != nil || len(at) != 11 {
			t.Errorf("%v, %v", at, err)
		}
		for i, d := range at {
			if d != time.Duration(i)*time.Minute {
				t.Errorf("operation %d after %s", i, d)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		at, l = nil, newList(11)
		if err := Apply(ctx, l, r, note); api.CodeOf(err) != api.CodeCancelled || len(l.done) != 2 {
			t.Errorf("%v, %v", l.done, err)
		}
	})
}
