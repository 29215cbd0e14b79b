// Command ratelimit asks for many quotes from an API that takes 20 requests in a second and is down for a while. All
// runs share its limits: they call it as fast as the API allows, and while it is down, only one of them tries it.
//
//	go run ./examples/ratelimit                100 quotes, from a server that this program starts
//	kill -9 the process, and start it again: the quotes it has are not asked for again
//	rm -r pawl-data/ratelimit                  to begin anew
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
	_ "github.com/pawl-dev/pawl/journal/sqlite" // where the runs are kept
	"github.com/pawl-dev/pawl/policy"
)

// limits returns the limits of the API less a tenth: requests do not arrive as regularly as they are sent. A program
// has one such table for everything that its steps use.
func limits(rate int) map[string]policy.QueueLimits {
	return map[string]policy.QueueLimits{"quotes": {
		Concurrency: 5,
		Rate:        policy.Rate{N: rate - rate/10, Per: time.Second},
		Breaker:     policy.Breaker{Failures: 3, Pause: 500 * time.Millisecond, MaxPause: 5 * time.Second},
	}}
}

// quotes is the API, as its client sees it.
type quotes struct {
	client *http.Client
	url    string
}

func (q *quotes) workflow() *pawl.Workflow[int, string] {
	return pawl.Define("quote", func(ctx pawl.Context, item int) (string, error) {
		// The step names the service, and for how long it is worth trying. The engine decides when it may run.
		return pawl.Step(ctx, "ask", func(ctx context.Context) (string, error) { return q.ask(ctx, item) },
			pawl.Service("quotes"), pawl.AttemptTimeout("10s"), pawl.Timeout("10m"),
			pawl.Retry(pawl.RetryPolicy{MaxAttempts: -1, InitialInterval: 100 * time.Millisecond, Jitter: 0.5}))
	})
}

// ask runs the step.
func (q *quotes) ask(ctx context.Context, item int) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/%d", q.url, item), nil)
	if err != nil {
		return "", err
	}
	res, err := q.client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	switch {
	case err != nil:
		return "", err
	case res.StatusCode == http.StatusOK:
		return string(body), nil
	case res.StatusCode == http.StatusNotFound:
		return "", pawl.NonRetryable(errors.New("there is no such item"))
	}
	err = fmt.Errorf("the API says %s", res.Status)
	if seconds, bad := strconv.Atoi(res.Header.Get("Retry-After")); bad == nil {
		return "", pawl.RetryAfter(err, time.Duration(seconds)*time.Second)
	}
	return "", err
}

func main() {
	dir := flag.String("dir", filepath.Join("pawl-data", "ratelimit"), "folder of the database and the server's log")
	items := flag.Int("items", 100, "how many quotes are asked for")
	rate := flag.Int("rate", 20, "how many requests the API takes in a second")
	flag.Parse()
	if err := run(*dir, *items, *rate); err != nil {
		fmt.Fprintln(os.Stderr, "ratelimit:", err)
		os.Exit(1)
	}
}

func run(dir string, items, rate int) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: &api{log: log, rate: rate}, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()

	ctx, w := context.Background(), (&quotes{http.DefaultClient, "http://" + listener.Addr().String()}).workflow()
	eng, err := pawl.Open(ctx, pawl.Config{
		Database: "sqlite:" + filepath.Join(dir, "pawl.db"), Workflows: []pawl.Definition{w}, Services: limits(rate),
	})
	if err != nil {
		return err
	}
	var runs []pawl.Run[string]
	for item := range items {
		id := fmt.Sprint("item-", item)
		r, err := w.Start(ctx, eng, id, item, pawl.IdempotencyKey(id)) // or finds the run of an earlier life
		if err != nil {
			return errors.Join(err, eng.Close())
		}
		runs = append(runs, r)
	}
	err = await(ctx, eng, runs)
	return errors.Join(err, eng.Close())
}

// await waits for all runs. Meanwhile it shows what the first open one waits for.
func await(ctx context.Context, eng *pawl.Engine, runs []pawl.Run[string]) error {
	for i, r := range runs {
		for {
			soon, stop := context.WithTimeout(ctx, time.Second)
			_, err := r.Result(soon)
			stop()
			if err == nil {
				break
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			e, err := eng.Explain(ctx, r.ID)
			if err != nil {
				return err
			}
			for _, s := range e.Steps {
				fmt.Printf("%d quotes; item %d, attempt %d: %s\n", i, i, len(s.Attempts), s.Held)
			}
		}
	}
	fmt.Printf("%d quotes\n", len(runs))
	return nil
}
