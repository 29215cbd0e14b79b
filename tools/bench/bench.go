package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
)

// Options choose what to measure.
type Options struct {
	Names []string // rows, in this order; none: all
	Quick bool     // shorter windows and smaller numbers: shows trends, not results
	Dir   string   // folder for the database, on the disk to measure. Defaults to the folder for temporary files
	// Database is the address of a PostgreSQL database. Rows are then measured on a SQLite file and on that database.
	Database string
	Log      io.Writer // receives progress, in lines. Defaults to discarding it

	// Pawl is the command that rows of a server start. Default: one that is built from the sources in this folder.
	Pawl string
}

// Row is the result of one row. Fields that do not apply to a row are 0.
type Row struct {
	Name     string  `json:"name"`
	Database string  `json:"database,omitempty"` // "postgres"; empty: a SQLite file
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"`
	P50      float64 `json:"p50_ms"`           // the median latency: start to result, or lateness
	P99      float64 `json:"p99_ms"`           //
	CPU      float64 `json:"cpu_s"`            // this process and its children, while the value was measured
	RSS      int64   `json:"rss_bytes"`        // the memory of this process; for sleepers what the sleeping runs added
	DB       int64   `json:"db_bytes"`         // size of the closed database's files
	Floor    float64 `json:"fdatasync_p50_ms"` // 4 KiB appended and synced on the same disk, around the row
	detail   string  // further results, as text
	cost     float64 // processor time of a run, in milliseconds
	reached  bool
}

// work is one row of the table, before it is measured.
type work struct {
	name, what, target string
	run                func(ctx context.Context, s *session) (Row, error)
}

var works = []work{
	{"onestep", "flows of one noop step, 256 in flight", "<= 0.021 ms cpu a run", oneStep},
	{
		"partitions", "onestep on a database of four partitions", "two cores >= 1.5 x one core",
		partitioned,
	},
	{"tenstep", "flows of ten sequential noop steps", "<= 0.125 ms cpu a run", tenStep},
	{"latency", "start to result of one noop step, one at a time", "p50 <= 1.7 x fdatasync p50", latency},
	{"retry", "a step failing twice, 10ms backoff", ">= 4000 runs/s", retry},
	{"sleepers", "runs that sleep for an hour", "<= 400 B RSS, <= 500 B on disk a run", sleepers},
	{
		"schedules", "schedules whose next firing is far", "<= 300 B on disk a schedule, what is due found in <= 5ms",
		manySchedules,
	},
	{"timers", "runs due within 10s", "lateness p99 <= 1ms, worst <= 5ms", timers},
	{"parked", "onestep while 100000 other runs sleep", ">= 0.95 of the empty rate", parked},
	{"retained", "onestep in a file with 3000000 closed runs", ">= 0.97 of the empty rate", retained},
	{
		"recovery", "two-step runs, killed at 55% of the steps",
		"first step <= 1s, all done <= 5s, none repeated, open runs ready <= 3s", recovery,
	},
	{"attempts", "flows whose step runs, 10000 at once", "<= 6 KB a run", heldAttempts},
	{"exec", "flows of one process, 16 at once, 64 in flight", ">= 0.8 of the rate without an engine", processes},
	{"http", "flows of one request, 256 at once", ">= 0.6 of the rate without an engine", requests},
	{"go-onestep", "Go functions of one local step", ">= 30000 runs/s, <= 0.05 ms cpu a run", goOneSteps},
	{"go-tenstep", "Go functions of ten local steps", ">= 80000 steps/s, <= 0.25 ms cpu a run", goTenSteps},
	{"go-call", "Go functions that call a handler of a queue ten times", "<= 0.3 ms cpu a run", goCalls},
	{"go-latency", "start to result of a Go function of one step", "p50 <= 2.2 x fdatasync p50", goLatency},
	{
		"inflight", "go-tenstep with 16, 256, 1024 and 4096 in flight", "at 4096 >= 0.9 of the best rate",
		goInFlight,
	},
	{"payload", "64 Go runs at once whose results have 1 MB", ">= 200 MB/s", payloads},
	{"go-attempts", "Go functions whose step runs, 10000 at once", "<= 12 KB a run", goAttempts},
	{"go-sleepers", "Go functions that sleep for an hour", "<= 200 MiB for 100000", goSleepers},
	{"go-resume", "a Go function of 10000 steps after a restart", "<= 1s", goResume},
	{"http-onestep", "onestep through the API of a server", ">= 6000 runs/s", httpOneStep},
	{"remote-onestep", "the same, the step executed by a worker elsewhere", ">= 4000 runs/s", remoteOneStep},
	{"remote-latency", "remote-onestep, one at a time", "p50 <= 3 ms", remoteLatency},
	{
		"idle-clients", "http-onestep beside 1000 pollers and 500 streams that wait",
		">= 0.95 of the rate without them, <= 64 MiB", idleClients,
	},
	{"list", "first pages of 1000000 runs while 5000 runs/s flow", "p99 <= 20 ms", list},
	{"idle", "a server that nobody asks for anything", "<= 20 MiB without files it has read, <= 0.1 % of a core", idle},
}

// Names returns the names of all rows.
func Names() []string { return append(namesOf(works), namesOf(nodeWorks)...) }

func namesOf(all []work) []string {
	names := make([]string, len(all))
	for i, w := range all {
		names[i] = w.name
	}
	return names
}

// UnknownError is a name that no row has.
type UnknownError struct{ Name string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("bench %s: there is no such row (known: %s)", e.Name, strings.Join(Names(), ", "))
}

// Run measures the rows, one after the other. For an unknown name it measures nothing and returns an *[UnknownError].
// If a row fails or ctx is done, it returns that error and the rows that were measured before.
func Run(ctx context.Context, o Options) ([]Row, error) {
	chosen, err := choose(o.Names)
	if err != nil {
		return nil, err
	}
	switch o.Log.(type) {
	case nil:
		o.Log = io.Discard
	case *os.File:
	default:
		o.Log = &lockedWriter{to: o.Log}
	}
	rows := make([]Row, 0, len(chosen))
	for _, w := range chosen {
		more, err := o.rows(ctx, w)
		rows = append(rows, more...)
		if err != nil {
			return rows, fmt.Errorf("bench %s: %w", w.name, err)
		}
	}
	return rows, nil
}

// rows measures a row, on a server as well if there is one.
func (o Options) rows(ctx context.Context, w work) ([]Row, error) {
	if o.Database != "" {
		return o.onBoth(ctx, w)
	}
	row, err := o.measure(ctx, w)
	if err != nil {
		return nil, err
	}
	return []Row{row}, nil
}

func choose(names []string) ([]work, error) {
	if len(names) == 0 {
		return works, nil
	}
	chosen := make([]work, 0, len(names))
	for _, name := range names {
		w := find(name)
		if w == nil {
			return nil, &UnknownError{name}
		}
		chosen = append(chosen, *w)
	}
	return chosen, nil
}

func find(name string) *work {
	for _, all := range [][]work{works, nodeWorks} {
		if i := slices.Index(namesOf(all), name); i >= 0 {
			return &all[i]
		}
	}
	return nil
}

// measure runs one row in its own folder. It measures the floor before and after; rows that are compared with it
// measure it between their runs as well.
func (o Options) measure(ctx context.Context, w work) (row Row, err error) {
	dir, err := os.MkdirTemp(o.Dir, "pawl-bench-")
	if err != nil {
		return Row{}, err
	}
	defer func() {
		if gone := os.RemoveAll(dir); err == nil {
			err = gone
		}
	}()
	s := &session{Options: o, dir: dir, name: w.name}
	if o.Database != "" {
		if s.server, err = newServer(ctx, o.Database, w.name); err != nil {
			return Row{}, err
		}
		defer func() { err = errors.Join(err, s.server.drop(context.WithoutCancel(ctx))) }()
	}
	s.logf("%s", w.what)
	if s.floor, err = openFloor(dir); err != nil {
		return Row{}, err
	}
	defer func() { err = errors.Join(err, s.floor.close()) }()
	if err := s.floor.sample(pick(s, 400, 200)); err != nil {
		return Row{}, err
	}
	if row, err = w.run(ctx, s); err != nil {
		return Row{}, err
	}
	if err := s.floor.sample(pick(s, 400, 200)); err != nil {
		return Row{}, err
	}
	row.Name = w.name
	floor := summarise(s.floor.took)
	row.Floor = floor.p50
	// relative to the floor, which is known only now
	if times := map[string]float64{"latency": 1.7, "go-latency": 2.2}[w.name]; times > 0 {
		if s.server != nil {
			times = 5
		}
		row.reached = row.P50 <= times*row.Floor
		row.detail = fmt.Sprintf("%.2f x fdatasync p50%s", row.P50/row.Floor, s.perStep)
	}
	s.logf("%s %s, p50 %.3g ms, p99 %.3g ms, cpu %.3g s, fdatasync p50 %.3g ms p99 %.3g ms; %s",
		number(row.Value), row.Unit, row.P50, row.P99, row.CPU, floor.p50, floor.p99, row.detail)
	return row, nil
}

// session is one row being measured.
type session struct {
	Options
	dir   string
	name  string
	floor *floorFile

	server  *server // nil: a file in dir
	perStep string  // statements, as text
}

func (s *session) logf(format string, args ...any) {
	fmt.Fprintf(s.Log, "%-9s "+format+"\n", append([]any{s.name}, args...)...)
}

// lockedWriter is shared by the rows and by child processes that write.
type lockedWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(b)
}

// pick returns the full or the quick number.
func pick[T any](s *session, full, quick T) T {
	if s.Quick {
		return quick
	}
	return full
}
