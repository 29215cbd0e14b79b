package server

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// TestQueryText checks that lists, counts, histograms and operations on many runs are chosen by the text that people
// write, and that a text that makes no sense is refused with its column.
func TestQueryText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		start := func(id, tenant string) {
			if _, err := b.client.Start(t.Context(), api.StartRequest{
				Definition: definition(crimsonFlow), WorkflowID: id, Labels: map[string]string{"tenant": tenant},
			}); err != nil {
				t.Fatal(err)
			}
		}
		start("old", "acme")
		<-time.After(3 * time.Hour)
		start("new", "acme")
		start("other", "two words")
		text := url.QueryEscape("tenant=acme newer:2h is:open")
		status, _, body := b.plain("GET", "/api/v1/runs?q="+text, "")
		if status != 200 || !strings.Contains(body, `"new"`) || strings.Contains(body, `"old"`) {
			t.Errorf("%d %s", status, body)
		}
		page, err := b.client.Runs(t.Context(), api.Query{Text: `tenant="two words"`})
		if err != nil || len(page.Runs) != 1 || page.Runs[0].WorkflowID != "other" {
			t.Errorf("%+v, %v", page, err)
		}
		for _, path := range []string{"runs", "counts", "histogram", "events"} {
			status, header, body := b.plain("GET", "/api/v1/"+path+"?q="+url.QueryEscape("acme flw:x"), "")
			b.problem(path, status, header, body, 400, api.CodeInvalid, "column 6", "did you mean flow:?")
		}
		status, _, body = b.plain("POST", "/api/v1/bulk/pause", `{"query":{"q":"tenant=acme older:2h"},"dryRun":true}`)
		if status != 200 || !strings.Contains(body, `"old"`) || strings.Contains(body, `"new"`) {
			t.Errorf("%d %s", status, body)
		}
	})
}

// TestHistogram checks that runs are counted by when they began, within the span of the query.
func TestHistogram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		for range 3 {
			r := api.StartRequest{Definition: definition(crimsonFlow)}
			if _, err := b.client.Start(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Hour)
		}
		for query, want := range map[string]struct {
			all  int
			each time.Duration
		}{
			"":                         {3, time.Hour},
			"over=90m":                 {1, 90 * time.Minute / 24},
			"q=newer:150m":             {2, 150 * time.Minute / 24},
			"q=older:90m+newer:210m":   {2, 5 * time.Minute},
			"q=is:failed":              {0, time.Hour},
			"workflow=nobody&over=24m": {0, time.Minute},
		} {
			status, _, body := b.plain("GET", "/api/v1/histogram?"+query, "")
			var h api.Histogram
			err := json.Unmarshal([]byte(body), &h)
			n := 0
			for _, p := range h.Parts {
				n += p.Runs
			}
			if err != nil || status != 200 || h.All.Runs != want.all || n != want.all || h.All.Open != want.all ||
				h.Each.Std() != want.each || len(h.Parts) != 24 {
				t.Errorf("%s: %d %s", query, status, body)
			}
		}
	})
}

// TestSuggest checks how a query may go on.
func TestSuggest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		for _, tenant := range []string{"acme", "acme", `a "b"`} {
			if _, err := b.client.Start(t.Context(), api.StartRequest{
				Definition: definition(crimsonFlow), Labels: map[string]string{"tenant": tenant},
			}); err != nil {
				t.Fatal(err)
			}
		}
		for text, want := range map[string][]string{
			"":                   {"is:", "flow:"},
			"fl":                 {"flow:"},
			"is:re":              {"is:resting", "is:retrying"},
			"is:open retry":      {"is:retrying"},
			"flow:":              {"flow:order"},
			"orde":               {"flow:order"},
			"ten":                {"tenant=acme", `tenant="a \"b\""`},
			"tenant=ac":          {"tenant=acme"},
			`error:"no paper fl`: nil,
			"tenant=acme":        nil,
		} {
			status, _, body := b.plain("GET", "/api/v1/suggest?q="+url.QueryEscape(text), "")
			var got []api.Suggestion
			if err := json.Unmarshal([]byte(body), &got); err != nil || status != 200 {
				t.Fatalf("%s: %d %s", text, status, body)
			}
			var terms []string
			for _, s := range got {
				terms = append(terms, s.Term)
			}
			for i, term := range want {
				if i >= len(terms) || terms[i] != term {
					t.Errorf("%s: %q, want first %q", text, terms, want)
					break
				}
			}
			if want == nil && len(got) > 0 || len(got) > 10 {
				t.Errorf("%s: %q", text, terms)
			}
			for _, term := range terms { // each is one that a query takes, or goes on
				if _, err := (api.Query{Text: term}).Read(1); err != nil && !strings.HasSuffix(term, ":") {
					t.Errorf("%s: %v", term, err)
				}
			}
		}
	})
}
