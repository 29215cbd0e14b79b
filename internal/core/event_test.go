package core

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestEvents tells the transcripts under testdata/events. They are conversations as TestMachine's; events prints what
// the run's entries tell since the last time. Regenerate with -rewrite.
func TestEvents(t *testing.T) {
	datadriven.Walk(t, "testdata/events", func(t *testing.T, path string) {
		tr := &transcript{}
		var teller *Teller
		told := 0
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "events" {
				out := tr.do(t, d)
				if d.Cmd == "define" {
					teller, told = NewTeller(tr.run.ID, tr.def.definition()), 0
				}
				return out[strings.LastIndex(strings.TrimSuffix(out, "\n"), "\n")+1:]
			}
			var b strings.Builder
			for ; told < len(tr.entries); told++ {
				for _, ev := range teller.Events(tr.entries[told]) {
					if d.HasArg("json") {
						text, err := json.Marshal(ev)
						fatal(t, err)
						fmt.Fprintf(&b, "%s\n", text)
						continue
					}
					step := ev.Step
					if step == "" {
						step = "-"
					}
					text := ev.Text()
					if strings.Contains(text, "\n") {
						t.Errorf("more than one line: %q", text)
					}
					line := fmt.Sprintf("%3d %8s %-22s %-8s %s", ev.Seq, ev.Offset, ev.Type, step, text)
					fmt.Fprintln(&b, strings.TrimRight(line, " "))
				}
			}
			if got, want := teller.Run().Phase, tr.run.Phase; got != want {
				t.Errorf("the teller's run is %s, the machine's %s", got, want)
			}
			return b.String()
		})
	})
}
