// Package pawlhttp works with a Pawl server from a Go program: [Connect] gives a client of it, [Worker] executes the
// tasks of its queues, [Serve] runs the bodies of its workflows, and [Handler] makes a server of the program's own
// engine.
//
//	send := pawl.Handle("Send", func(ctx context.Context, m Mail) (string, error) { … })
//	err := pawlhttp.Worker{
//		Server: "http://127.0.0.1:7295", Queue: "mail", Slots: 8, Handlers: []pawl.AnyHandler{send},
//	}.Run(ctx)
//
// The handlers are the same that Engine.Serve takes for queues of the engine in the same process.
package pawlhttp

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/plugged"
	"github.com/pawl-dev/pawl/internal/remote"
	"github.com/pawl-dev/pawl/internal/served"
)

// Worker executes the tasks of a queue that a server has. It needs a Server and Handlers; other fields have defaults.
type Worker struct {
	Server    string // http://127.0.0.1:7295
	Token     string // empty: the server asks for none
	Queue     string // default "", the queue of steps without one
	Handlers  []pawl.AnyHandler
	Transport http.RoundTripper // sends the requests; default as in ClientConfig
	Slots     int               // tasks that run at once, of all handlers together. Default 16.
	// Name is recorded with each attempt, for people. Default: the host's name and the process's number.
	Name string
	// DrainWithin is how long tasks that run may take to end when the worker stops. Default 30s.
	DrainWithin time.Duration

	// Handlers need the following, as in pawl.Config.
	Codec       pawl.Codec
	MaxPayload  int
	Grace       time.Duration
	Intercept   pawl.Interceptor
	Propagators []pawl.Propagator
	Log         *slog.Logger // default slog.Default()
}

// Run executes tasks until the context ends. Then it takes no more, and waits for the running ones; those that have not
// ended within DrainWithin are told to stop, and made again by another worker. A server that cannot be reached is asked
// again until it answers. Errors: pawl.ErrInvalid, and that work did not stop.
func (w Worker) Run(ctx context.Context) error {
	if w.Slots == 0 {
		w.Slots = 16
	}
	if len(w.Handlers) == 0 {
		return fmt.Errorf("pawl: worker of the queue %q: %w: it has no handlers", w.Queue, pawl.ErrInvalid)
	}
	c, err := clientOf(w.Server, w.Token, w.Transport)
	if err != nil {
		return err
	}
	defer c.Close()
	cfg := pawl.Config{
		Codec: w.Codec, MaxPayload: w.MaxPayload, Grace: w.Grace, Intercept: w.Intercept, Propagators: w.Propagators,
		Log: w.Log,
	}
	executors, stop, err := served.Make(ctx, cfg, w.Queue, w.Slots, w.Handlers)
	if err != nil {
		return err
	}
	defer stop()
	return api.Spoken(remote.NewWorker(remote.WorkerConfig{
		Tasks: c, Queue: w.Queue, Name: w.Name, Executors: executors, Slots: w.Slots,
		DrainWithin: w.DrainWithin, Log: plugged.Log(cmp.Or(w.Log, slog.Default())),
	}).Run(ctx))
}
