package examples_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/internal/told"
)

// stored reads the runs that a program has left. It opens no engine, which would go on with them: its schedules would
// start runs of workflows that only the program has.
type stored struct {
	*testing.T
	runs *service.File
}

// openStored opens the database of a program for reading.
func openStored(t *testing.T, dir string) *stored {
	t.Helper()
	path := filepath.Join(dir, "pawl.db")
	if _, err := os.Stat(path); err != nil {
		path = filepath.Join(dir, "saga.db")
	}
	j, err := journal.OpenReadOnly(t.Context(), "sqlite:"+path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	read := func(d journal.Definition) (*service.Prepared, error) {
		if shown := kind.TraitsOf(d.Kind).Shown; shown != nil {
			return &service.Prepared{Definition: shown}, nil
		}
		return nil, fmt.Errorf("workflow %q is no function", d.Name)
	}
	return &stored{T: t, runs: service.NewFile(j, read, time.Now)}
}

// list returns all runs but those of schedules, the oldest first.
func (s *stored) list() (all []client.Summary) {
	s.Helper()
	for q := (api.Query{Limit: 500}); ; {
		page, err := s.runs.Runs(s.Context(), q)
		if err != nil {
			s.Fatal(err)
		}
		for _, r := range page.Runs {
			if !strings.HasPrefix(r.Workflow, "pawl.") { // schedules
				all = append(all, client.Summary{
					ID: r.Run, Workflow: r.Workflow, WorkflowID: r.WorkflowID, Phase: client.Phase(r.Phase),
				})
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			slices.Reverse(all)
			return all
		}
	}
}

// describe returns a run with its output.
func (s *stored) describe(id string) client.Description {
	s.Helper()
	r, err := s.runs.Run(s.Context(), id)
	if err != nil {
		s.Fatal(err)
	}
	return client.Description{Summary: client.Summary{ID: id, Phase: client.Phase(r.Phase)}, Output: r.Output}
}

// events returns what has happened to a run until now.
func (s *stored) events(id string) (all []client.HistoryEvent) {
	s.Helper()
	r, err := s.runs.Run(s.Context(), id)
	if err != nil {
		s.Fatal(err)
	}
	enough := errors.New("enough")
	err = s.runs.Watch(s.Context(), id, 0, func(ev api.Event) error {
		all = append(all, told.Event(&ev).(client.HistoryEvent))
		if ev.Seq >= r.Events {
			return enough
		}
		return nil
	})
	if err != nil && !errors.Is(err, enough) {
		s.Fatal(err)
	}
	return all
}

// TestLookChangesNothing checks that who judges a program's runs starts none, although a firing of its schedule is due.
func TestLookChangesNothing(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := pawl.Define("report", func(pawl.Context, string) (string, error) { return "done", nil })
		eng, err := pawl.Open(t.Context(), pawl.Config{
			Database: "sqlite:" + filepath.Join(dir, "pawl.db"), Workflows: []pawl.Definition{w},
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.EnsureSchedule(t.Context(), eng, "sales", client.Schedule{Cron: "@every 2s"}, "sales")
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(5 * time.Second)
		if err := errors.Join(eng.Close(), context.Cause(t.Context())); err != nil {
			t.Fatal(err)
		}
		<-time.After(44 * time.Second) // a firing is due, on time
		for range 2 {
			if r := look(t, dir, "log", 0); len(r.runs) != 2 {
				t.Errorf("%d runs of 2 firings", len(r.runs))
			}
			<-time.After(5 * time.Second)
		}
	})
}
