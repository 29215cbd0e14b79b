package service

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/policy"
)

const napFlow = `pawl: 1
name: naps
input: {type: object, properties: {first: {type: string}, customer: {type: object}, rush: {type: boolean}}}
steps:
  - {name: first, sleep: "${{ input.first }}"}
  - {name: broken, needs: [first], fail: {kind: error, message: no paper}, retry: "fixed(2, 30m)", continueOn: [error]}
`

// naps starts a run that sleeps, then waits half an hour for its second attempt. limit is its run limit; 0: none.
func (b *bed) naps(first string, limit time.Duration, customer int) string {
	b.Helper()
	r := api.StartRequest{
		Definition: definition(napFlow),
		Input: json.RawMessage(fmt.Sprintf(`{"first": %q, "customer": {"id": %d}, "rush": %t}`, first, customer,
			limit > 0)),
	}
	r.Definition.Name = "naps"
	if limit > 0 {
		r.Timeout = &policy.Limit{After: limit}
	}
	started, err := b.run.Start(b.Context(), r)
	if err != nil {
		b.Fatal(err)
	}
	<-time.After(time.Millisecond) // so that its id is greater than those before
	return started.Run
}

// found checks which runs both services find, on pages of two.
func (b *bed) found(what string, q api.Query, want ...string) {
	b.Helper()
	b.both(func(name string, s api.Service) {
		var got []string
		for q.Cursor, q.Limit = "", 2; ; {
			page, err := s.Runs(b.Context(), q)
			if err != nil {
				b.Fatalf("%s, %s: %v", name, what, err)
			}
			for _, r := range page.Runs {
				got = append(got, r.Run)
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			b.Errorf("%s, %s: found %v, want %v", name, what, got, want)
		}
	})
}

// TestSearch finds runs by their deadlines, by what they do and by their input, whether the view has them yet or not.
func TestSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		for range 5 { // which tell that the usual run takes 40 minutes
			b.naps("10m", 0, 1)
		}
		<-time.After(time.Hour)
		var late, fine string
		for customer, settled := range []bool{false, true} { // the view does not have them yet at first
			what := fmt.Sprintf("settled: %v, ", settled)
			free := b.naps("10m", 0, customer)
			late = b.naps("1m", 35*time.Minute, customer) // its first sleep ends in time; the usual run takes longer
			soon := b.naps("10m", 20*time.Minute, customer)
			asleep := b.naps("2h", time.Hour, customer) // nothing happens before its deadline
			fine = b.naps("1m", 50*time.Minute, customer)
			if settled {
				<-time.After(15 * time.Second)
			}
			within := func(d time.Duration) api.Query { return api.Query{DeadlineWithin: api.Duration(d)} }
			b.found(what+"within 10m", within(10*time.Minute))
			b.found(what+"within 20m", within(20*time.Minute), soon)
			b.found(what+"within 1h", within(time.Hour), soon, late, fine, asleep)
			b.found(what+"will miss", api.Query{WillMiss: true}, soon, late, asleep)
			b.late(what, soon, late, asleep)
			input := map[string]string{"customer.id": fmt.Sprint(customer), "rush": "true"}
			b.found(what+"input", api.Query{Input: input}, fine, asleep, soon, late)
			input["rush"] = "false"
			b.found(what+"input, order", api.Query{Input: input, WillMiss: true})
			b.found(what+"retrying", api.Query{Retrying: true})
			if !settled {
				b.ended(free, late, soon, asleep, fine)
			}
		}
		b.both(func(name string, s api.Service) {
			page, err := s.Runs(t.Context(), api.Query{WillMiss: true, Limit: 1})
			if err != nil || len(page.Runs) != 1 {
				t.Fatalf("%s: %+v, %v", name, page, err)
			}
			r := page.Runs[0]
			if want := r.CreatedAt.Std().Add(40 * time.Minute); r.ExpectedEnd.Std().Sub(want).Abs() > time.Second {
				t.Errorf("%s: it is expected to end at %s, want %s", name, r.ExpectedEnd, want)
			}
		})
		<-time.After(5 * time.Minute)
		b.found("retrying", api.Query{Retrying: true}, fine, late)
		urgent := api.Query{Retrying: true, DeadlineWithin: api.Duration(45 * time.Minute)}
		b.found("retrying within 45m", urgent, late, fine)
		<-time.After(40 * time.Minute)
		b.found("retrying later", api.Query{Retrying: true})
	})
}

// late checks which open runs a list of all runs marks as late.
func (b *bed) late(what string, want ...string) {
	b.Helper()
	b.both(func(name string, s api.Service) {
		page, err := s.Runs(b.Context(), api.Query{Phases: []api.RunPhase{api.RunWaiting}})
		if err != nil {
			b.Fatal(err)
		}
		var got []string
		for _, r := range page.Runs {
			if r.ExpectedEnd != 0 {
				got = append(got, r.Run)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			b.Errorf("%s, %s: %v are late, want %v", name, what, got, want)
		}
	})
}

// ended terminates runs.
func (b *bed) ended(runs ...string) {
	b.Helper()
	for _, run := range runs {
		if err := b.run.Operate(b.Context(), run, api.Operation{Operation: api.OpTerminate}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestForgedCursors checks that a cursor that was changed anywhere, or that another query gave, is refused.
func TestForgedCursors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		for range 3 {
			b.start(api.StartRequest{})
		}
		b.both(func(name string, s api.Service) {
			page, err := s.Runs(t.Context(), api.Query{Limit: 1})
			if err != nil || page.Next == "" {
				t.Fatalf("%s: %+v, %v", name, page, err)
			}
			if _, err := s.Runs(t.Context(), api.Query{Cursor: page.Next, Limit: 7}); err != nil {
				t.Errorf("%s: the next page, with another limit: %v", name, err)
			}
			_, err = s.Runs(t.Context(), api.Query{Cursor: page.Next, Workflow: "order"})
			b.code(name+": the cursor of another query", err, api.CodeInvalid)
			whole, err := base64.RawURLEncoding.DecodeString(page.Next)
			if err != nil {
				t.Fatal(err)
			}
			for i := range whole {
				forged := slices.Clone(whole)
				forged[i] ^= 1
				_, err := s.Runs(t.Context(), api.Query{Cursor: base64.RawURLEncoding.EncodeToString(forged)})
				b.code(fmt.Sprintf("%s: byte %d was changed", name, i), err, api.CodeInvalid)
			}
		})
	})
}
