package main

import (
	"context"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/internal/api"
)

// logTexts are the logs of attempts, in memory. Each part has at most eight bytes.
type logTexts map[string]string

func (l logTexts) Log(_ context.Context, _ string, at api.LogPlace) (api.LogPart, error) {
	text, ok := l[at.Step]
	if !ok {
		return api.LogPart{}, api.Sentinel(api.CodeNotFound)
	}
	text = text[min(at.From, int64(len(text))):]
	text = text[:min(8, len(text))]
	return api.LogPart{Text: []byte(text), Next: at.From + int64(len(text))}, nil
}

// TestLineReader checks that the reader returns the last line with any text, also before that line ends, and that a
// new attempt begins anew.
func TestLineReader(t *testing.T) {
	t.Parallel()
	logs := logTexts{}
	l := &lineReader{logs: logs, known: map[live.StepOf]*printing{}}
	step := live.StepOf{Run: "r", Step: "s"}
	last := func(attempt int) string {
		return l.round(t.Context(), map[live.StepOf]int{step: attempt})[step]
	}
	for _, c := range []struct{ printed, want string }{
		{"one\ntwo", "two"},
		{"one\ntwo\n", "two"},
		{"one\ntwo\n\n  \n", "two"},
		{"one\ntwo\n\n  \n{\"pawl\": ", "two"},
		{"one\ntwo\n\n  \n{\"pawl\": 1}\r\n", "two"},
		{"one\ntwo\n\n  \n{\"pawl\": 1}\r\n10%\r20%", "20%"},
	} {
		logs["s"] = c.printed
		if got := last(1); got != c.want {
			t.Errorf("after %q the last line is %q, not %q", c.printed, got, c.want)
		}
	}
	logs["s"] = "again\n"
	if got := last(2); got != "again" {
		t.Errorf("the next attempt shows %q", got)
	}
	delete(logs, "s")
	if got := last(3); got != "" {
		t.Errorf("an attempt without a log shows %q", got)
	}
	if l.round(t.Context(), nil); len(l.known) != 0 {
		t.Error("an attempt that has ended is remembered")
	}
	logs["s"] = strings.Repeat("x", 3*longestLine) + "\nend\n"
	for range 3 * longestLine {
		if got := last(4); got == "end" {
			return
		} else if len(got) > longestLine {
			t.Fatalf("a line of %d bytes is kept", len(got))
		}
	}
	t.Error("the end of a long log is never reached")
}
