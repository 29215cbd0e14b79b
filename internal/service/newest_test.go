package service

import (
	"context"
	"testing"

	"github.com/pawl-dev/pawl/internal/api"
)

// TestNewest reads the name of a chain that goes on while it is read, and names that mean one run only.
func TestNewest(t *testing.T) {
	closed := func(id, next string) api.Run {
		return api.Run{RunSummary: api.RunSummary{Run: id, Phase: api.RunContinued}, Next: next}
	}
	open := api.Run{RunSummary: api.RunSummary{Run: "3", Phase: api.RunRunning}}
	for _, c := range []struct {
		about, name, want string
		reads             []api.Run // meanings of the name, read by read
	}{
		{"the chain goes on twice", "chain", "3", []api.Run{closed("1", "2"), closed("2", "3"), open}},
		{"the chain has ended", "chain", "2", []api.Run{closed("2", "")}},
		{"the run that has followed was removed", "chain", "2", []api.Run{closed("2", "3"), closed("2", "3")}},
		{"the run is open", "chain", "3", []api.Run{open}},
		{"the run is named by its id", "1", "1", []api.Run{closed("1", "2")}},
	} {
		reads := 0
		r, err := newestRun(t.Context(), c.name, func(context.Context, string) (*api.Run, error) {
			reads++
			return &c.reads[reads-1], nil
		})
		if err != nil || r.Run != c.want || reads != len(c.reads) {
			t.Errorf("%s: run %s after %d reads, %v; it is run %s, after %d", c.about, r.Run, reads, err, c.want,
				len(c.reads))
		}
	}
}
