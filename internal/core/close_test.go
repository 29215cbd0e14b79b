package core

import (
	"bytes"
	"testing"
)

// TestOutputIsRecordedOnce checks that a run whose output is that of one of its steps refers to the step, and reads the
// same.
func TestOutputIsRecordedOnce(t *testing.T) {
	large, other := bytes.Repeat([]byte("7"), shareFrom), bytes.Repeat([]byte("8"), shareFrom)
	for name, c := range map[string]struct {
		output []byte
		same   StepID
	}{
		"the first step's": {large, 1},
		"the last step's":  {other, 2},
		"its own":          {bytes.Repeat([]byte("9"), shareFrom), 0},
		"a short one":      {[]byte("7"), 0},
		"none":             {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewRun(RunID{6: 0x70, 15: 9})
			started := talk(t, r, Start{}).Entry
			marked := decide(t, r,
				Mark{Spec: &StepSpec{Name: "a", Def: -1}, Output: large},
				Mark{Spec: &StepSpec{Name: "b", Def: -1}, Output: other},
				Mark{Spec: &StepSpec{Name: "c", Def: -1}, Output: []byte("7")},
			).Entry
			closed := decide(t, r, Close{Phase: RunSucceeded, Output: bytes.Clone(c.output)}).Entry
			for _, rec := range closed.Records {
				if end, ok := rec.(RunClosing); ok && (end.SameAs != c.same || end.SameAs > 0 && end.Output != nil) {
					t.Errorf("it is recorded as step %d - 1 with %d bytes", end.SameAs, len(end.Output))
				}
			}
			again := NewRun(r.ID)
			for _, e := range []Entry{started, marked, closed} {
				read, _, err := ReadEntry(AppendEntry(nil, &e))
				if err != nil {
					t.Fatal(err)
				}
				for _, rec := range read.Records {
					Apply(again, read.At, rec)
				}
			}
			for _, run := range []*Run{r, again} {
				if run.Phase != RunSucceeded || !bytes.Equal(run.Output, c.output) {
					t.Errorf("the run is %s with %d bytes", run.Phase, len(run.Output))
				}
			}
		})
	}
}
