// Command fanout makes thumbnails of many photos, a few at a time. A photo that cannot be read does not stop the
// others: the report names it.
//
//	go run ./examples/fanout                   20 photos, of which one is broken
//	kill -9 the process, and start it again: finished photos are not done again
//	rm -r pawl-data/fanout                     to begin anew
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	_ "github.com/pawl-dev/pawl/journal/sqlite" // where the runs are kept
)

type album struct {
	Name   string
	Photos int
}

// thumbnail is the result for a photo: its path, or why there is none.
type thumbnail struct {
	Photo, URL, Problem string
}

// studio holds the systems that the workflow works with. The log represents the store to which the thumbnails are sent.
type studio struct {
	log    io.Writer
	pace   time.Duration // duration of a step
	atOnce int
}

func (s *studio) workflow() *pawl.Workflow[album, []thumbnail] {
	return pawl.Define("thumbnails", s.all, pawl.RunTimeout("1h"),
		pawl.Defaults(pawl.Retry("exponential(5, 200ms)"), pawl.AttemptTimeout("1m")))
}

// all runs the workflow.
func (s *studio) all(ctx pawl.Context, a album) ([]thumbnail, error) {
	photos, err := pawl.Step(ctx, "list", func(context.Context) ([]string, error) { return list(a), nil })
	if err != nil {
		return nil, err
	}
	thumbnails, err := pawl.Map(ctx, "photos", s.atOnce, photos, s.one)
	if err != nil {
		return nil, err
	}
	return thumbnails, pawl.Do(ctx, "report", func(context.Context) error { return s.sent(a.Name, "report") })
}

// one makes the thumbnail of one photo, in its own branch. A failure of the photo itself is part of its result. An
// error would end the Map: no photo would begin after it.
func (s *studio) one(ctx pawl.Context, photo string) (thumbnail, error) {
	size, err := pawl.Step(ctx, "shrink", func(ctx context.Context) (int, error) { return s.shrink(ctx, photo) })
	var failed *pawl.StepError
	switch {
	case errors.As(err, &failed) && failed.Own():
		return thumbnail{Photo: photo, Problem: err.Error()}, nil
	case err != nil:
		return thumbnail{}, err // the run was cancelled, or has no time left
	}
	url, err := pawl.Step(ctx, "send", func(context.Context) (string, error) {
		return fmt.Sprintf("https://img.example/%s?%d", photo, size), s.sent(photo, "send")
	})
	return thumbnail{Photo: photo, URL: url}, err
}

func list(a album) (photos []string) {
	for i := range a.Photos {
		photos = append(photos, fmt.Sprintf("%s-%02d.jpg", a.Name, i+1))
	}
	return photos
}

// shrink simulates the work: some photos are broken, and some need a second attempt.
func (s *studio) shrink(ctx context.Context, photo string) (int, error) {
	select {
	case <-time.After(s.pace):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	switch {
	case strings.HasSuffix(photo, "-13.jpg"):
		return 0, pawl.NonRetryable(errors.New("not a JPEG file")) // another attempt would not help
	case strings.HasSuffix(photo, "7.jpg") && pawl.Attempt(ctx).Number == 1:
		return 0, errors.New("out of memory")
	}
	return len(photo), s.sent(photo, "shrink")
}

func (s *studio) sent(photo, what string) error {
	_, err := fmt.Fprintln(s.log, photo, what)
	return err
}

func main() {
	dir := flag.String("dir", filepath.Join("pawl-data", "fanout"), "folder of the database and the log")
	photos := flag.Int("photos", 20, "how many photos there are")
	atOnce := flag.Int("at-once", 4, "how many of them are worked on at a time")
	pace := flag.Duration("pace", time.Second, "how long a photo takes")
	flag.Parse()
	if err := run(*dir, *photos, *atOnce, *pace); err != nil {
		fmt.Fprintln(os.Stderr, "fanout:", err)
		os.Exit(1)
	}
}

func run(dir string, photos, atOnce int, pace time.Duration) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	ctx, w := context.Background(), (&studio{log, pace, atOnce}).workflow()
	eng, err := pawl.Open(ctx, pawl.Config{
		Database: "sqlite:" + filepath.Join(dir, "pawl.db"), Workflows: []pawl.Definition{w},
	})
	if err != nil {
		return err
	}
	r, err := w.Start(ctx, eng, "", album{"sea", photos}, pawl.IdempotencyKey("sea")) // or finds the run
	if err != nil {
		return errors.Join(err, eng.Close())
	}
	thumbnails, err := r.Result(ctx)
	for _, t := range thumbnails {
		fmt.Println(t.Photo, t.URL, t.Problem)
	}
	return errors.Join(err, eng.Close())
}
