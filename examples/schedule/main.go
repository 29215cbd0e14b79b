// Command schedule writes a report every two seconds. Firings that come while the program is off are missed; it shows
// which, and makes up for them.
//
//	go run ./examples/schedule                 for ten seconds
//	go run ./examples/schedule                 later: it writes the reports that were missed, and goes on
//	rm -r pawl-data/schedule                   to begin anew
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	_ "github.com/pawl-dev/pawl/journal/sqlite" // where the runs and the schedule are kept
)

// timetable is when reports are written. A firing that is later than CatchUp is missed.
var timetable = client.Schedule{Cron: "@every 2s", CatchUp: time.Second, Overlap: client.OverlapSkip}

// workflow writes a report to out. Its run is named after the schedule and the firing.
func workflow(out io.Writer) *pawl.Workflow[string, string] {
	return pawl.Define("report", func(ctx pawl.Context, topic string) (string, error) {
		firing := pawl.Info(ctx).WorkflowID
		return firing, pawl.Do(ctx, "write", func(context.Context) error {
			_, err := fmt.Fprintln(out, topic, firing)
			return err
		}, pawl.Retry("fixed(3, 1s)"))
	})
}

func main() {
	dir := flag.String("dir", filepath.Join("pawl-data", "schedule"), "folder of the database and the reports")
	lasts := flag.Duration("for", 10*time.Second, "how long the program runs")
	flag.Parse()
	if err := run(context.Background(), *dir, *lasts); err != nil {
		fmt.Fprintln(os.Stderr, "schedule:", err)
		os.Exit(1)
	}
}

// run lets the schedule start runs for some time, counted from when the database is open.
func run(ctx context.Context, dir string, lasts time.Duration) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	reports, err := os.OpenFile(filepath.Join(dir, "reports"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer reports.Close()
	w := workflow(io.MultiWriter(reports, os.Stdout))
	eng, err := pawl.Open(ctx, pawl.Config{
		Database: "sqlite:" + filepath.Join(dir, "pawl.db"), Workflows: []pawl.Definition{w},
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, lasts)
	defer stop()
	err = keep(ctx, eng, w)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return errors.Join(err, eng.Close())
}

// keep puts the schedule into effect and makes up for missed firings.
func keep(ctx context.Context, eng *pawl.Engine, w *pawl.Workflow[string, string]) error {
	// Each time the program starts: a schedule that is there already stays, or is changed to this one.
	s, err := w.EnsureSchedule(ctx, eng, "sales", timetable, "sales")
	if err != nil {
		return err
	}
	fmt.Println("reports are written every two seconds")

	for madeUp := (time.Time{}); ; { // those that were missed before that
		d, err := s.Describe(ctx)
		if err != nil {
			return err
		}
		for _, m := range d.RecentMissed {
			if !m.To.After(madeUp) {
				continue
			}
			fmt.Printf("%d firings were missed (%s), from %s to %s\n", m.Count, m.Reason,
				m.From.Format(time.TimeOnly), m.To.Format(time.TimeOnly))
			// A firing that has a run does not get another one.
			_, err := s.Backfill(ctx, m.From, m.To.Add(time.Second), "the program was off")
			if errors.Is(err, pawl.ErrInvalid) {
				fmt.Println(err) // ten backfills are under way, after many outages: the next look goes on
				break
			} else if err != nil {
				return err
			}
			madeUp = m.To
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
