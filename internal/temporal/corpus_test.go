package temporal

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/temporal/history"
)

var runsFile = flag.String("runs", "", "a file to which the runs of transcripts are added, with their events")

// writeRuns adds all runs to the file that is asked for: what they have recorded, and the events of that.
func (b *bed) writeRuns() {
	b.Helper()
	if *runsFile == "" {
		return
	}
	file, err := os.OpenFile(*runsFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	page, err := b.engine.List(b.Context(), journal.Query{Limit: 1000})
	if err != nil {
		b.Fatal(err)
	}
	for _, row := range page.Runs {
		entries, err := b.engine.Entries(b.Context(), row.ID, 0)
		if err != nil {
			b.Fatal(err)
		}
		if row.WorkflowID == "full" {
			continue // it is too large
		}
		f := history.New(row.ID)
		fmt.Fprintf(file, "run %s\n", row.ID)
		for _, e := range entries {
			fmt.Fprintf(file, "entry %s\n", hex.EncodeToString(core.AppendEntry(nil, &e)))
			f.Add(e)
		}
		for _, e := range f.View(f.Entries) {
			fmt.Fprintf(file, "event %s\n", hex.EncodeToString(encoded(b.T, e)))
		}
	}
}
