package trail

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
)

// phrase collects the pieces of a sentence.
type phrase struct{ parts []api.Part }

// add appends text. Neighbours without a reference are one piece.
func (s *phrase) add(format string, args ...any) *phrase {
	text := format
	if len(args) > 0 {
		text = fmt.Sprintf(format, args...)
	}
	if n := len(s.parts); n > 0 && s.parts[n-1] == (api.Part{Text: s.parts[n-1].Text}) {
		s.parts[n-1].Text += text
		return s
	}
	return s.part(api.Part{Text: text})
}

func (s *phrase) part(p api.Part) *phrase {
	s.parts = append(s.parts, p)
	return s
}

func (s *phrase) step(key string) *phrase   { return s.part(api.Part{Text: key, Step: key}) }
func (s *phrase) run(id string) *phrase     { return s.part(api.Part{Text: id, Run: id}) }
func (s *phrase) queue(name string) *phrase { return s.part(api.Part{Text: name, Queue: name}) }
func (s *phrase) event(name string) *phrase { return s.part(api.Part{Text: name, Event: name}) }

// mostOfFailure is how many bytes of a failure a sentence has at most: it is kept with the run's row.
const mostOfFailure = 600

func (s *phrase) failed(why string) *phrase {
	if len(why) > mostOfFailure {
		why = strings.ToValidUTF8(why[:mostOfFailure], "") + "…"
	}
	return s.part(api.Part{Text: why, Failure: true})
}

// runs appends the runs that are named, and how many others there are: a, b and 2 more runs.
func (s *phrase) runs(of core.SomeRuns) *phrase {
	others := of.N - len(of.Named)
	for i, r := range of.Named {
		switch {
		case i > 0 && i == len(of.Named)-1 && others <= 0:
			s.add(" and ")
		case i > 0:
			s.add(", ")
		}
		s.part(api.Part{Text: cmp.Or(r.WorkflowID, r.Run.String()), Run: r.Run.String()})
	}
	runs := "runs"
	if others == 1 {
		runs = "run"
	}
	switch {
	case others > 0 && len(of.Named) > 0:
		s.add(" and %d more %s", others, runs)
	case others > 0:
		s.add("%d %s", others, runs)
	}
	return s
}

// in appends an instant to come.
func (s *phrase) in(at api.Time) *phrase {
	return s.part(api.Part{Text: "at " + at.String(), At: at, Form: api.FormIn})
}

// since appends the instant at which something began that goes on.
func (s *phrase) since(at api.Time) *phrase {
	return s.part(api.Part{Text: "since " + at.String(), At: at, Form: api.FormFor})
}

// ago appends an instant of the past.
func (s *phrase) ago(at api.Time) *phrase {
	return s.part(api.Part{Text: "at " + at.String(), At: at, Form: api.FormAgo})
}

// with appends the pieces of another sentence.
func (s *phrase) with(o *phrase) *phrase {
	for _, p := range o.parts {
		s.piece(p)
	}
	return s
}

// said returns the sentence, or nil if there is none.
func (s *phrase) said() *api.Saying {
	if len(s.parts) == 0 {
		return nil
	}
	var b strings.Builder
	for _, p := range s.parts {
		b.WriteString(p.Text)
	}
	out := &api.Saying{Text: b.String()}
	if len(s.parts) > 1 || s.parts[0] != (api.Part{Text: out.Text}) {
		out.Parts = s.parts
	}
	return out
}
