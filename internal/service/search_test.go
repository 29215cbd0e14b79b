package service

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
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

// TestFindsByText finds runs by what a person writes, whether the view has them yet or not, and counts the same runs.
func TestFindsByText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		start := func(id, tenant string) string {
			d := definition(strings.ReplaceAll(napFlow, ", continueOn: [error]", ""))
			d.Name = "naps"
			started, err := b.run.Start(t.Context(), api.StartRequest{
				Definition: d, Input: json.RawMessage(`{"first": "1m"}`), WorkflowID: id,
				Labels: map[string]string{"tenant": tenant},
			})
			if err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Millisecond)
			return started.Run
		}
		one, two, three := start("order-1", "acme"), start("order-2", "Beta"), start("invoice-1", "acme")
		for _, what := range []string{"new: ", "settled: "} {
			b.found(what+"a word", api.Query{Text: "ORDER"}, two, one)
			b.found(what+"of a label", api.Query{Text: "beta"}, two)
			b.found(what+"two words", api.Query{Text: "order acme"}, one)
			b.found(what+"a word that no run has", api.Query{Text: "order-3"})
			b.found(what+"keys", api.Query{Text: "flow:naps tenant=acme is:open"}, three, one)
			b.found(what+"beside it", api.Query{Text: "-1", Labels: map[string]string{"tenant": "acme"}}, three, one)
			b.both(func(name string, s api.Service) {
				counts, err := s.Counts(t.Context(), api.Query{Text: "order is:open"})
				n := 0
				for _, c := range counts {
					n += c.Runs
				}
				if err != nil || n != 2 || len(counts) != 4 {
					t.Errorf("%s%s counts %+v, %v", what, name, counts, err)
				}
				_, err = s.Runs(t.Context(), api.Query{Text: "is:opn"})
				b.code(name+" a word that means nothing", err, api.CodeInvalid)
			})
			<-time.After(15 * time.Second)
		}
		<-time.After(time.Hour) // the second attempt has failed
		b.found("an error", api.Query{Text: `error:"no paper"`}, three, two, one)
		b.found("an old error", api.Query{Text: `error:"no paper" older:2h`})
		b.found("a new one", api.Query{Text: `error:"no paper" newer:2h is:failed`}, three, two, one)
	})
}

// TestWordsLookFar checks that a page which looks for a word ends soon and that the next ones go on.
func TestWordsLookFar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		first := b.naps("10h", 0, 1)
		for range 60 {
			b.naps("10h", 0, 2)
		}
		b.found("the oldest run", api.Query{Text: first}, first)
		changes := b.changes()
		for text, fine := range map[string]bool{"is:open flow:naps": true, "naps": false, "error:x": false} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := changes.Changes(ctx, api.Query{Text: text}, "", func(api.Change) error { return nil })
			cancel()
			if got := api.CodeOf(err); (got == api.CodeInvalid) == fine {
				t.Errorf("changes of %s: %v", text, err)
			}
		}
	})
}
