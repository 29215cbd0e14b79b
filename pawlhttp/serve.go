package pawlhttp

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/lease"
	"github.com/pawl-dev/pawl/internal/served"
)

// ServeConfig configures [Serve]. Workflows is needed.
type ServeConfig struct {
	Token     string            // empty: the server asks for none
	Transport http.RoundTripper // sends the requests; default as in ClientConfig
	Workflows []pawl.Definition
	// Name identifies this process for people. Default: the host's name and the process's number.
	Name string
	// DrainWithin is how long local steps that run may take to end when Serve stops. Default 30s.
	DrainWithin time.Duration

	// Bodies and their local steps need the following, as in pawl.Config.
	Codec       pawl.Codec
	MaxPayload  int
	Concurrency int
	TaskTimeout time.Duration
	Grace       time.Duration
	Intercept   pawl.Interceptor
	Propagators []pawl.Propagator
	Log         *slog.Logger // default slog.Default()
}

// Serve runs the bodies of workflows in this process, for a server: pawl dev or pawl server at http://127.0.0.1:7295.
// The server keeps the runs; their decisions, local steps and hooks are made here. A caller that starts such a workflow
// there by its name starts it for all processes that serve it, which share the runs. While no process serves it, its
// runs wait. The schedules of these workflows ([pawl.Workflow.EnsureSchedule]) are the server's.
//
// Serve works until the context ends. Then others go on with the runs at once, no local step begins here, and running
// ones may end; those that have not ended within DrainWithin are told to stop, and made again elsewhere. A server that
// cannot be reached is asked again until it answers. If it is silent for 10s, what runs here is stopped, because others
// may have taken it. Errors: pawl.ErrInvalid, what the server refuses, and that work did not stop.
func Serve(ctx context.Context, server string, cfg ServeConfig) error {
	c, err := clientOf(server, cfg.Token, cfg.Transport)
	if err != nil {
		return err
	}
	defer c.Close()
	program, stop, err := served.Serving(ctx, pawl.Config{
		Workflows: cfg.Workflows, Codec: cfg.Codec, MaxPayload: cfg.MaxPayload, Concurrency: cfg.Concurrency,
		TaskTimeout: cfg.TaskTimeout, Grace: cfg.Grace, Intercept: cfg.Intercept, Propagators: cfg.Propagators,
		Log: cfg.Log,
	})
	if err != nil {
		return err
	}
	defer stop()
	return api.Spoken(lease.NewHolder(lease.HolderConfig{
		Server: c, Name: cmp.Or(cfg.Name, ownName()), Program: program,
		DrainWithin: cmp.Or(cfg.DrainWithin, 30*time.Second),
	}).Run(ctx))
}

// ownName names this process.
func ownName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "process"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}
