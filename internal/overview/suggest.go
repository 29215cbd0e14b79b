package overview

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/api"
)

const mostSuggested = 10

// Suggest returns ways to complete the last term of a search text: keys, their values, and the flows, labels and names
// of the newest runs.
func (s Sources) Suggest(ctx context.Context, text string) ([]api.Suggestion, error) {
	term := lastTerm(text)
	g := &suggesting{term: strings.ToLower(strings.ReplaceAll(term, `"`, "")), all: []api.Suggestion{}}
	key, _, keyed := strings.Cut(g.term, ":")
	if !keyed {
		for _, k := range api.FindKeys() {
			g.add(k[0]+":", k[1])
		}
	}
	if !keyed && g.term != "" || key == "is" {
		for _, word := range api.FindWords() {
			g.add("is:"+word, "")
		}
	}
	page, err := s.Runs.Runs(ctx, api.Query{Limit: mostRuns})
	if err != nil {
		return nil, err
	}
	g.addRuns(page.Runs)
	return g.all[:min(len(g.all), mostSuggested)], nil
}

// lastTerm returns the last term of a text; spaces in quotation marks do not end it.
func lastTerm(text string) string {
	from, quoted := 0, false
	for i, r := range text {
		switch {
		case r == '"':
			quoted = !quoted
		case r <= ' ' && !quoted:
			from = i + 1
		}
	}
	return text[from:]
}

// suggesting is one call of Suggest.
type suggesting struct {
	term string
	all  []api.Suggestion
}

// add adds a term that begins like the written one, or whose value does.
func (g *suggesting) add(term, says string) {
	lower := strings.ToLower(strings.ReplaceAll(term, `"`, ""))
	_, value, _ := strings.Cut(lower, ":")
	if lower != g.term && (strings.HasPrefix(lower, g.term) || g.term != "" && strings.Contains(value, g.term)) {
		g.all = append(g.all, api.Suggestion{Term: term, Says: says})
	}
}

// addRuns adds the flows, labels and names of runs, the most frequent first.
func (g *suggesting) addRuns(runs []api.RunSummary) {
	flows, labels, ids := map[string]int{}, map[string]int{}, map[string]int{}
	for _, r := range runs {
		flows["flow:"+quotedTerm(r.Workflow)]++
		for key, value := range r.Labels {
			if strings.Contains(key, ":") {
				labels["label:"+quotedTerm(key+"="+value)]++
			} else {
				labels[key+"="+quotedTerm(value)]++
			}
		}
		if r.WorkflowID != "" {
			ids["id:"+quotedTerm(r.WorkflowID)]++
		}
	}
	for _, count := range []map[string]int{flows, labels, ids} {
		terms := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
			return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
		})
		for _, term := range terms {
			g.add(term, "")
		}
	}
}

// quotedTerm writes a value as part of a term.
func quotedTerm(value string) string {
	if value != "" && !strings.ContainsAny(value, " \t\n\"\\") {
		return value
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}
