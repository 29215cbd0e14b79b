package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/pawlhttp"
)

// remoteQueue is the queue of which a worker in this process executes the tasks of a server.
const remoteQueue = "bench"

// httpOneStep starts runs of a noop through the API of a server, and asks it for their results.
func httpOneStep(ctx context.Context, s *session) (Row, error) {
	row, err := s.throughServer(ctx, "onestep", inFlight, false)
	row.reached = row.Value >= 6000
	return row, err
}

// remoteOneStep measures the same with a step that a worker in this process executes.
func remoteOneStep(ctx context.Context, s *session) (Row, error) {
	row, err := s.throughServer(ctx, "remote", inFlight, true)
	row.reached = row.Value >= 4000
	return row, err
}

// remoteLatency measures remoteOneStep with one run at a time.
func remoteLatency(ctx context.Context, s *session) (Row, error) {
	row, err := s.throughServer(ctx, "remote", 1, true)
	row.Value, row.Unit = row.P50, "ms"
	row.reached = row.P50 <= 3
	return row, err
}

// throughServer measures how many runs of a flow end in a second while that many clients start and await them through a
// server, with a worker for its tasks or without.
func (s *session) throughServer(ctx context.Context, flow string, clients int, remote bool) (row Row, err error) {
	err = s.withServer(ctx, func(srv *servingProcess, c *apiClient) (err error) {
		if remote {
			stop := srv.work(ctx)
			defer func() { err = errors.Join(err, stop()) }()
		}
		before := srv.processor()
		w, err := closedLoop(ctx, clients, pick(s, 3*time.Second, 500*time.Millisecond), s.length(),
			func(ctx context.Context) error { return throughAPI(ctx, c, flow) }, nil)
		if err != nil {
			return err
		}
		own := (srv.processor() - before).Seconds() * 1e3 / float64(w.done)
		row = w.row("runs/s", 1)
		row.RSS = srv.resident()
		row.detail = fmt.Sprintf("cpu %.3g ms a run here and %.3g in the server", w.cost(), own)
		return nil
	})
	return row, err
}

// throughAPI starts a run of a flow that the server knows, and awaits its result.
func throughAPI(ctx context.Context, c *apiClient, flow string) error {
	started, err := c.StartNamed(ctx, flow, api.StartRequest{})
	if err != nil {
		return err
	}
	out, err := c.Wait(ctx, started.Run)
	if err == nil && out.Phase != api.RunSucceeded {
		err = fmt.Errorf("run %s is %s", started.Run, out.Phase)
	}
	return err
}

// work makes this process execute the tasks of the server's queue until the function that it returns is called.
func (srv *servingProcess) work(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	nothing := pawl.Handle("Nothing",
		func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, nil })
	go func() {
		done <- pawlhttp.Worker{
			Server: srv.url, Queue: remoteQueue, Slots: inFlight, Handlers: []pawl.AnyHandler{nothing},
		}.Run(ctx)
	}()
	return func() error {
		cancel()
		return <-done
	}
}

// The clients of the row idle-clients.
const (
	idleStreams    = 500
	pollsPerStream = 2
)

// idleClients compares the rate of short runs through a server beside many clients that wait with the rate without
// them. Pollers wait for tasks, and streams follow runs that sleep.
func idleClients(ctx context.Context, s *session) (row Row, err error) {
	memory, err := s.idleMemory(ctx)
	if err != nil {
		return Row{}, err
	}
	var with, without, ratios []float64
	err = s.withServer(ctx, func(srv *servingProcess, c *apiClient) error {
		rate := func() (float64, error) {
			w, err := closedLoop(ctx, inFlight, pick(s, 2*time.Second, 300*time.Millisecond), s.length()/4,
				func(ctx context.Context) error { return throughAPI(ctx, c, "onestep") }, nil)
			row = w.row("of the rate without them", 1)
			return w.rate(), err
		}
		before, err := rate()
		for i := 0; err == nil && i < pick(s, 7, 1); i++ {
			var clients *process
			if clients, err = s.idleClients(ctx, srv, idleStreams); err != nil {
				return err
			}
			beside, err := rate()
			clients.kill()
			if err != nil {
				return err
			}
			after, err := rate()
			if err != nil {
				return err
			}
			s.logf("%.0f runs/s beside them, %.0f before and %.0f after", beside, before, after)
			with, without = append(with, beside), append(without, before, after)
			ratios = append(ratios, beside/((before+after)/2)) // a rate that drifts changes both of these
			before = after
		}
		return err
	})
	if err != nil {
		return Row{}, err
	}
	row.Value, row.RSS = median(ratios), memory
	row.reached = row.Value >= 0.95 && memory <= 64<<20
	row.detail = fmt.Sprintf("%d pollers and %d streams take %.3g MiB; %.0f runs/s with them, %.0f without",
		pollsPerStream*idleStreams, idleStreams, float64(memory)/(1<<20), median(with), median(without))
	return row, nil
}

// idleMemory returns how much memory the clients take in a server. The server collects its garbage often: else what it
// needs to make them ready would stay, and count.
func (s *session) idleMemory(ctx context.Context) (bytes int64, err error) {
	err = s.withServer(ctx, func(srv *servingProcess, _ *apiClient) error {
		rest(ctx, pick(s, 3*time.Second, 300*time.Millisecond)) // the files of flows have settled then
		var before int64
		for _, streams := range []int{1, idleStreams} { // the first brings the code that serves clients into memory
			before = srv.resident()
			clients, err := s.idleClients(ctx, srv, streams)
			if err != nil {
				return err
			}
			rest(ctx, time.Second)
			bytes = srv.resident() - before
			clients.kill()
		}
		return nil
	}, "GOGC=20")
	return bytes, err
}

// idleClients makes clients that wait, in a process of their own.
func (s *session) idleClients(ctx context.Context, srv *servingProcess, streams int) (*process, error) {
	clients, err := s.child(ctx, "idle", srv.url, streams)
	if err == nil {
		_, err = clients.expect("ready")
	}
	return clients, err
}

// idleAt makes clients of a server that wait, in a process of their own.
func idleAt(ctx context.Context, url string, streams int, say func(string, time.Time)) error {
	c, err := (&servingProcess{url: url}).client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wait sync.WaitGroup
	defer wait.Wait()
	for i := range pollsPerStream * streams {
		queue := fmt.Sprintf("idle-%d", i%10)
		wait.Go(func() {
			for ctx.Err() == nil {
				_, err := c.Poll(ctx, api.PollRequest{Queue: queue, Max: 1, Wait: api.Duration(time.Minute)})
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	var seen atomic.Int64
	for range streams {
		started, err := c.StartNamed(ctx, "sleep", api.StartRequest{})
		if err != nil {
			return err
		}
		wait.Go(func() {
			first := sync.OnceFunc(func() { seen.Add(1) })
			cancel(c.Watch(ctx, started.Run, 0, func(api.Event) error {
				first()
				return nil
			}))
		})
	}
	if err := until(ctx, func() bool { return seen.Load() == int64(streams) }); err != nil {
		return err
	}
	say("ready", time.Now())
	<-ctx.Done()
	return context.Cause(ctx)
}

// listedRuns is how many runs the row list has.
const listedRuns = 1_000_000

// list asks a server that has very many runs for first pages of lists and searches, while other clients start runs.
func list(ctx context.Context, s *session) (row Row, err error) {
	n := pick(s, listedRuns, 20_000)
	if err = s.fill(ctx, n); err != nil {
		return Row{}, err
	}
	err = s.withServer(ctx, func(srv *servingProcess, c *apiClient) error {
		row, err = s.listed(ctx, srv, c, n)
		return err
	})
	return row, err
}

// listed measures the row list on a server that has n runs.
func (s *session) listed(ctx context.Context, srv *servingProcess, c *apiClient, n int) (row Row, err error) {
	started, stop := flowing(ctx, c)
	defer stop()
	rest(ctx, pick(s, 3*time.Second, 500*time.Millisecond))
	queries := []api.Query{
		{Limit: 50},
		{Limit: 50, Workflow: "onestep"},
		{Limit: 50, Phases: []api.RunPhase{api.RunFailed}},
		{Limit: 50, Phases: []api.RunPhase{api.RunSucceeded}},
		{Limit: 50, DeadlineWithin: api.Duration(time.Hour)},
		{Limit: 50, Retrying: true},
		{Limit: 50, WillMiss: true},
		{Limit: 50, Input: map[string]string{"order": "7"}},
	}
	all := make([][]time.Duration, len(queries))
	used, from := meter(), started.Load()
	for i := range pick(s, 2000, 80) {
		began := time.Now()
		if _, err := c.Runs(ctx, queries[i%len(queries)]); err != nil {
			return Row{}, err
		}
		all[i%len(all)] = append(all[i%len(all)], time.Since(began))
		rest(ctx, 5*time.Millisecond)
	}
	took := used()
	var worst summary
	slowest := ""
	for i := range all {
		sum := summarise(all[i])
		asked, err := json.Marshal(queries[i])
		if err != nil {
			return Row{}, err
		}
		s.logf("%s: p50 %.3g ms, p99 %.3g ms", asked, sum.p50, sum.p99)
		if sum.p99 > worst.p99 {
			worst, slowest = sum, string(asked)
		}
	}
	row = Row{Value: worst.p99, Unit: "ms (p99)", P50: worst.p50, P99: worst.p99, CPU: took.cpu.Seconds()}
	row.RSS, row.reached = srv.resident(), worst.p99 <= 20
	row.detail = fmt.Sprintf("%d runs, while %.0f runs/s flow; the slowest of %d searches is %s",
		n, float64(started.Load()-from)/took.took.Seconds(), len(queries), slowest)
	return row, nil
}

// flowing makes clients start runs at a steady rate until the function that it returns is called. It counts them.
func flowing(ctx context.Context, c *apiClient) (started *atomic.Int64, stop func()) {
	const wanted, starters = 5000, 64 // a second, of all of them
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	started = &atomic.Int64{}
	for range starters {
		wait.Go(func() {
			tick := time.NewTicker(time.Second * starters / wanted)
			defer tick.Stop()
			for ctx.Err() == nil && throughAPI(ctx, c, "onestep") == nil {
				started.Add(1)
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	return started, func() {
		cancel()
		wait.Wait()
	}
}

// fill makes a database with that many closed runs.
func (s *session) fill(ctx context.Context, n int) error {
	st, err := s.open(ctx, nil)
	if err != nil {
		return err
	}
	def := definition(oneStepFlow)
	err = each(ctx, n, inFlight, func(ctx context.Context, i int) error {
		return st.once(ctx, def, fmt.Appendf(nil, `{"order":%d}`, i))
	})
	if err == nil {
		err = until(ctx, func() bool { return st.engine.Stats().Behind == 0 })
	}
	return errors.Join(err, st.close())
}

// idle measures what a server uses that gets no requests.
func idle(ctx context.Context, s *session) (row Row, err error) {
	err = s.withServer(ctx, func(srv *servingProcess, _ *apiClient) error {
		rest(ctx, pick(s, 5*time.Second, time.Second))
		from, before := time.Now(), srv.processor()
		rest(ctx, pick(s, 30*time.Second, 2*time.Second))
		share := (srv.processor() - before).Seconds() / time.Since(from).Seconds() * 100
		all, files := memoryOf(fmt.Sprint(srv.cmd.Process.Pid))
		row = Row{Value: float64(all-files) / (1 << 20), Unit: "MiB of its own", RSS: all}
		row.reached = row.Value <= 20 && share <= 0.1
		row.detail = fmt.Sprintf("%.2g %% of a core; and %.3g MiB of code and other files that it has read",
			share, float64(files)/(1<<20))
		return nil
	})
	return row, err
}
