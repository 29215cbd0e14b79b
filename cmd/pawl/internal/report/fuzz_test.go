package report

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/policy"
)

// FuzzReport puts a text and instants wherever a run may hold some. The page has the markup that it has with a text in
// which nothing can be taken for markup.
func FuzzReport(f *testing.F) {
	f.Add(`<script>alert(1)</script>`, int64(0), int64(3000))
	f.Add("\x1b[31mred\x1b[0m\r\n\x00\u202e</pre><b onclick=x>", int64(-5000), int64(-1))
	f.Add("' onload='x' \"></title>{{.Made}}", int64(1)<<40, int64(2000))
	f.Fuzz(func(t *testing.T, text string, started, ended int64) {
		harmless := strings.Map(func(r rune) rune {
			if strings.ContainsRune("<>&\"'`=/", r) {
				return 'x'
			}
			return r
		}, text)
		got, want := tags(made(t, filled(text, started, ended))), tags(made(t, filled(harmless, started, ended)))
		if !slices.Equal(got, want) {
			t.Errorf("the page's markup is\n%q\nand with a harmless text\n%q", got, want)
		}
	})
}

var tag = regexp.MustCompile(`<[^>]*>`)

// quoted matches what stands between quotes in a tag: it may say where a bar begins.
var quoted = regexp.MustCompile(`"[^"]*"`)

func tags(page string) []string {
	var out []string
	for _, found := range tag.FindAllString(page, -1) {
		out = append(out, quoted.ReplaceAllString(found, `""`))
	}
	return out
}

// filled returns a run with a text in every field that has one.
func filled(text string, started, ended int64) *api.Run {
	instant := func(ms int64) api.Time { return api.At(time.UnixMilli(ms % (1 << 42))) }
	value, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		panic(err) // a string can always be written
	}
	return &api.Run{
		RunSummary: api.RunSummary{
			Run: text, Workflow: text, WorkflowID: text, Phase: api.RunFailed, CreatedAt: instant(started),
			EndedAt: instant(ended), Labels: map[string]string{text: text},
		},
		Why: text, Input: value, Output: value,
		Deadlines: []api.Deadline{{Limit: text, At: instant(ended), Origin: text}},
		Steps: []*api.Step{
			{
				Step: text, Type: text, Phase: api.StepFailed, ScheduledAt: instant(started), EndedAt: instant(ended),
				Output: value, Failure: &policy.Failure{Message: text, Type: text, Details: value},
				Deadlines: []api.Deadline{{Limit: text, At: instant(started), Origin: text}},
				Attempts: []api.Attempt{
					{
						Attempt: 1, ReadyAt: instant(started), StartedAt: instant(started), EndedAt: instant(ended),
						Outcome: text, Why: text, Worker: text, NextAt: instant(ended + 500),
					},
					{Attempt: 2, ReadyAt: instant(ended), StartedAt: instant(ended)},
				},
			},
			{Step: text + ".nap", Kind: api.KindSleep, Phase: api.StepSuspended, ScheduledAt: instant(started)},
		},
		Operations: []api.Audit{{At: instant(started), Operation: text, Step: text, Actor: text, Reason: text}},
	}
}
