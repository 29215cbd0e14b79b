package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"time"

	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/internal/worker/web"
)

// processesAtOnce is how many processes of the row exec run at once, in slots of the worker and without an engine.
const processesAtOnce = 16

// runsForProcesses is how many runs of the row exec are in flight. Each has its process for a part of its time only:
// two commits lie between two processes of a client. So there are enough runs that no slot waits for one.
const runsForProcesses = 4 * processesAtOnce

// processes compares runs of one process each with a program that starts the same processes without an engine.
func processes(ctx context.Context, s *session) (Row, error) {
	path, err := exec.LookPath("true")
	if err != nil {
		return Row{}, fmt.Errorf("the row needs the program true: %w", err)
	}
	source := "pawl: 1\nname: process\nsteps:\n  - {name: only, exec: {command: [true]}}\n"
	row, err := s.compare(ctx, comparison{
		source: source, taskType: "exec", executor: worker.NewExec(worker.ExecConfig{}),
		runs: runsForProcesses, fewer: processesAtOnce, atOnce: processesAtOnce,
		bare: func(ctx context.Context) error { return exec.CommandContext(ctx, path).Run() },
	})
	row.reached = row.Value >= 0.8
	return row, err
}

// requests compares runs of one request each with a client that makes the same requests without an engine. The server
// is in this process, so its work is part of both.
func requests(ctx context.Context, s *session) (row Row, err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return Row{}, err
	}
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"ok":true}`) // a client that is gone needs no answer
		}),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		closed := server.Close()
		if serve := <-served; !errors.Is(serve, http.ErrServerClosed) {
			closed = errors.Join(closed, serve)
		}
		err = errors.Join(err, closed)
	}()
	url := "http://" + listener.Addr().String() + "/"
	transport := &http.Transport{MaxIdleConnsPerHost: inFlight}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	source := "pawl: 1\nname: request\nsteps:\n  - {name: only, http: {url: \"" + url + "\"}}\n"
	row, err = s.compare(ctx, comparison{
		source: source, taskType: "http", executor: web.NewHTTP(web.HTTPConfig{}), runs: inFlight, atOnce: inFlight,
		bare: func(ctx context.Context) error { return get(ctx, client, url) },
	})
	row.reached = row.Value >= 0.6
	return row, err
}

// get makes a request and reads the answer.
func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

// comparison is a flow of one step, and the work of that step without an engine.
type comparison struct {
	source   string
	taskType string
	executor worker.Executor
	runs     int // the number in flight
	fewer    int // runs in flight that are measured as well, for the row's text; 0: none are
	bare     func(context.Context) error
	atOnce   int // how much of the work is done at once without an engine
}

// compare measures runs of the flow, and the work without an engine. Its value is the ratio of the two rates. The two
// take turns, so that a disturbance from outside hits both.
func (s *session) compare(ctx context.Context, c comparison) (Row, error) {
	st, err := s.open(ctx, map[string]worker.Executor{c.taskType: c.executor})
	if err != nil {
		return Row{}, err
	}
	def := definition(c.source)
	once := func(ctx context.Context) error { return st.once(ctx, def, nil) }
	warm, length := pick(s, time.Second, 200*time.Millisecond), pick(s, 3*time.Second, 500*time.Millisecond)
	loop := func(clients int, do func(context.Context) error) (w window, err error) {
		if clients > 0 {
			w, err = closedLoop(ctx, clients, warm, length, do, nil)
		}
		return w, err
	}
	var rates, fewerRates, bareRates, costs, bareCosts []float64
	var row Row
	for range pick(s, 3, 1) {
		b, err := loop(c.atOnce, c.bare)
		if err != nil {
			return Row{}, st.fail(err)
		}
		w, err := loop(c.runs, once)
		if err != nil {
			return Row{}, st.fail(err)
		}
		rates, costs = append(rates, w.rate()), append(costs, w.cost())
		bareRates, bareCosts = append(bareRates, b.rate()), append(bareCosts, b.cost())
		s.logf("%.0f runs/s at %.3g ms cpu%s; without an engine %.0f/s at %.3g ms%s",
			w.rate(), w.cost(), w.usage, b.rate(), b.cost(), b.usage)
		row = w.row("of the rate without an engine", 1)
		few, err := loop(c.fewer, once)
		if err != nil {
			return Row{}, st.fail(err)
		}
		if c.fewer > 0 {
			fewerRates = append(fewerRates, few.rate())
			s.logf("%.0f runs/s at %.3g ms cpu with %d in flight%s", few.rate(), few.cost(), c.fewer, few.usage)
		}
	}
	row.Value = median(rates) / median(bareRates)
	row.detail = fmt.Sprintf("%.0f runs/s at %.3g ms cpu; without an engine %.0f/s at %.3g ms",
		median(rates), median(costs), median(bareRates), median(bareCosts))
	if c.fewer > 0 {
		row.detail += fmt.Sprintf("; with %d runs in flight %.0f runs/s, %.3g of it", c.fewer, median(fewerRates),
			median(fewerRates)/median(bareRates))
	}
	if err := st.close(); err != nil {
		return Row{}, err
	}
	return row, s.measureFile(&row)
}
