package api

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// looped returns a run with a list of so many items, of which each tenth failed and the last one runs.
func looped(items int) *Run {
	began := Time(1_000_000_000)
	r := &Run{RunSummary: RunSummary{Run: "r"}}
	r.Steps = []*Step{{Step: "each", ID: 0, Kind: KindGroup}, {Step: "rest", ID: 1, Phase: StepRunning}}
	for i := range items {
		a := Attempt{Attempt: 1, StartedAt: began + Time(i)*1000, Outcome: "succeeded"}
		a.EndedAt = a.StartedAt + 500
		s := &Step{Step: fmt.Sprintf("each[%d]", i), ID: i + 2, Group: "each", Item: &i, Phase: StepSucceeded}
		switch {
		case i == items-1:
			a.EndedAt, a.Outcome, s.Phase = 0, "", StepRunning
		case i%10 == 3:
			a.Outcome, s.Phase = "failed", StepFailed
		}
		s.Attempts = []Attempt{a}
		r.Steps = append(r.Steps, s)
	}
	return r
}

// TestFoldedItems checks that a run comes without the items of a long list, and that its group says how they stand and
// when they ran; and that a short list stays whole.
func TestFoldedItems(t *testing.T) {
	short := looped(mostUnfolded)
	if short.WithoutItems(0) != short {
		t.Error("a short list was folded")
	}
	const n = 1000
	r := looped(n)
	asOf := r.Steps[n+1].Attempts[0].StartedAt + 60_000
	folded := r.WithoutItems(asOf)
	if len(folded.Steps) != 2 || r.Steps[0].Folded != nil || len(r.Steps) != n+2 {
		t.Fatalf("%d steps are left, and %d of the run", len(folded.Steps), len(r.Steps))
	}
	f := folded.Steps[0].Folded
	if f.Phases[StepSucceeded] != 899 || f.Phases[StepFailed] != 100 || f.Phases[StepRunning] != 1 {
		t.Errorf("the phases are %v", f.Phases)
	}
	ran, bad, last := 0, 0, 0
	for i, n := range f.Ran {
		ran, bad = ran+n, bad+f.Bad[i]
		if n > 0 {
			last = i
		}
	}
	if ran < n || bad < 100 || bad > 220 || len(f.Ran) != stripParts {
		t.Errorf("%d ran, %d of them badly, in %d parts", ran, bad, len(f.Ran))
	}
	if end := f.From.Std().Add(time.Duration(last+1) * f.Each.Std()); end.Before(asOf.Std()) {
		t.Errorf("the parts end at %v, before %v", end, asOf)
	}
}

// TestItemsInPages checks that items come page by page, in their order or the worst first, and what is refused.
func TestItemsInPages(t *testing.T) {
	r := looped(120)
	list := func(q ItemQuery) string {
		q.Of = "each"
		p, err := r.ItemsOf(q)
		if err != nil {
			return err.Error()
		}
		var names []string
		for _, s := range p.Items {
			names = append(names, strings.TrimPrefix(s.Step, "each"))
		}
		return fmt.Sprintf("%s of %d, next %d", strings.Join(names, ""), p.Total, p.Next)
	}
	for want, q := range map[string]ItemQuery{
		"[0][1] of 120, next 2":           {Limit: 2},
		"[118][119] of 120, next 0":       {Offset: 118},
		" of 120, next 0":                 {Offset: 500},
		"[3][13] of 12, next 2":           {Phase: StepFailed, Limit: 2},
		"[113][119][0] of 120, next 14":   {Worst: true, Offset: 11, Limit: 3},
		`items: there is no phase "x" of`: {Phase: "x"},
		"items: an offset is not":         {Limit: MostItems + 1},
	} {
		if got := list(q); !strings.HasPrefix(got, want) {
			t.Errorf("%+v: %s, want %s", q, got, want)
		}
	}
	if _, err := r.ItemsOf(ItemQuery{Of: "nothing"}); CodeOf(err) != CodeNotFound {
		t.Errorf("of a step that there is not: %v", err)
	}
}

// TestRunsOfALog checks that the text of a log is split at its marks.
func TestRunsOfALog(t *testing.T) {
	text := "out\nerr\nmore\n"
	for want, p := range map[string]LogPart{
		"<>out\nerr\nmore\n": {},
		"<>out\n<stderr>err\n<stdout>more\n": {Marks: []LogMark{
			{From: 104, Stream: "stderr"}, {From: 108, Stream: "stdout"},
		}},
		"<stderr>out\n<stdout>err\nmore\n": {Marks: []LogMark{
			{From: 20, Stream: "stdout"}, {From: 90, Stream: "stderr"}, {From: 104, Stream: "stdout"},
		}},
	} {
		p.Text, p.Next = []byte(text), int64(100+len(text))
		var b strings.Builder
		for stream, part := range p.Runs() {
			b.WriteString("<" + stream + ">" + string(part))
		}
		if b.String() != want {
			t.Errorf("%q, want %q", b.String(), want)
		}
	}
}
