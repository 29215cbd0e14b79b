package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/schedule"
)

// telling is how a command reports what happens: a live view, lines or JSON.
type telling uint8

const (
	tellLive  telling = iota // a tree, redrawn in place
	tellPlain                // a line an event
	tellJSON                 // a JSON object an event
	tellQuiet                // the output alone
)

// frameEvery is how often the live view checks for changes.
const frameEvery = 100 * time.Millisecond

// follower follows runs to their end and reports what happens.
type follower struct {
	*app
	svc     api.Service
	m       *machine // nil: another process carries the runs
	telling telling
	now     func() time.Time // the time of the runs
	note    string           // details that concern all runs

	roots   []string            // followed; where a chain goes on, its next run takes the place
	several bool                // lines say which run they are about
	runs    map[string]*api.Run // state of the runs when last read
	changed map[string]bool     // something has happened since
	looking map[string]bool     // a goroutine reads them now
	watched map[string]bool
	// expected are children that another partition of the database has not begun yet
	expected map[string]bool
	// lastAsked are the runs that were asked for after those at the top had ended; one that does not exist then never
	// begins
	lastAsked map[string]bool
	over      map[string]bool
	schedules map[string]*schedule.State // those that are followed, by name
	firings   map[string]bool            // the workflow ids of their runs that were looked for
	updates   chan update
	stalled   string
	others    live.Others
	// toldBefore has, by run, the last event that was printed before the process ended that carried the runs on then
	toldBefore map[string]int

	kept       keptItems   // items of which one line tells
	printed    *printed    // nil: what steps print is not printed
	lineReader *lineReader // nil: the live view does not show what steps print

	terminal  *screen.Terminal // nil if there is no live view
	asks      bool             // Ctrl-C asks what to do with runs that another process carries
	asking    bool
	cancelled chan error // outcome of the request to cancel the runs
}

// update is news of one run, from the goroutine that watches or reads it.
type update struct {
	run      string
	event    *api.Event
	firing   bool     // it is the run of a firing, which is followed from now on
	snapshot *api.Run // the present run; with its first event, with its end, and where it was asked for
	over     bool
	err      error
	lines    map[live.StepOf]string // set: news of no run, but the last lines of all running steps
}

// errLeft is the error of a follower that stops while runs are still open.
var errLeft = errors.New("left")

func (a *app) newFollower(svc api.Service, m *machine, how telling) *follower {
	if a.told == nil {
		a.told = map[string]int{}
	}
	var p *printed
	if how == tellPlain {
		p = a.newPrinted(svc)
	}
	return &follower{
		now: a.clockOf(context.Background()),
		app: a, svc: svc, m: m, telling: how, printed: p, runs: map[string]*api.Run{}, changed: map[string]bool{},
		looking: map[string]bool{}, watched: map[string]bool{}, over: map[string]bool{},
		expected: map[string]bool{}, lastAsked: map[string]bool{},
		updates: make(chan update, 256), cancelled: make(chan error, 1),
		toldBefore: maps.Clone(a.told),
		schedules:  map[string]*schedule.State{}, firings: map[string]bool{},
	}
}

// chooseTelling chooses the live view on a terminal and lines elsewhere, unless flags say otherwise.
func (a *app) chooseTelling(asJSON, quiet bool) telling {
	switch {
	case quiet:
		return tellQuiet
	case asJSON || a.output == formatJSON:
		return tellJSON
	case printsSteps(a.output):
		return tellPlain
	case isTerminal(a.Out) && os.Getenv("TERM") != "dumb":
		return tellLive
	default:
		return tellPlain
	}
}

// follow follows the runs until all have ended, or until a person leaves them; then the error is errLeft.
func (f *follower) follow(ctx context.Context, ids []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals := f.signals() // first: a signal must not end the process with a changed terminal
	defer signal.Stop(signals)
	if f.telling == tellLive {
		f.openTerminal()
		defer f.terminal.Close()
	}
	f.roots, f.several = ids, len(ids) > 1
	for _, id := range ids {
		f.watch(ctx, id)
	}
	err := f.loop(ctx, signals)
	if f.asking = false; err == nil || errors.Is(err, errLeft) {
		err = errors.Join(err, f.paint()) // paints without the question, which is answered or no longer matters
	}
	return err
}

// loop reports what happens until all runs have ended, or the command is asked to stop.
func (f *follower) loop(ctx context.Context, signals <-chan os.Signal) error {
	var keys <-chan string
	var resized <-chan struct{}
	if f.terminal != nil {
		keys, resized = f.terminal.Keys(), f.terminal.Resized()
	}
	ticker := time.NewTicker(frameEvery)
	defer ticker.Stop()
	var dead <-chan struct{}
	if f.m != nil {
		dead = f.m.Done()
	}
	for !f.allOver() || f.watchExpected(ctx) {
		select {
		case u := <-f.updates:
			if err := f.take(ctx, u); err != nil {
				return err
			}
		case <-ticker.C:
			if err := f.tick(ctx); err != nil {
				return err
			}
		case s := <-signals:
			if err := f.interrupted(s); err != nil {
				return err
			}
		case k := <-keys:
			if err := f.key(ctx, k); err != nil {
				return err
			}
		case <-resized:
			if err := f.paint(); err != nil {
				return err
			}
		case err := <-f.cancelled:
			if err != nil {
				return err
			}
		case <-dead:
			return f.engineEnded()
		}
	}
	return nil
}

// signals returns the channel of the signals that ask the command to stop. A command that executes attempts listens to
// them before the first run begins.
func (f *follower) signals() chan os.Signal {
	if f.m != nil {
		return f.m.signals
	}
	return stopSignals()
}

// stopSignals starts to receive the signals that ask the command to stop. From then on a write to a pipe that nobody
// reads is an error. It no longer ends the process, which has attempts to stop first.
func stopSignals() chan os.Signal {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	return signals
}

// watch starts to watch a run, once.
func (f *follower) watch(ctx context.Context, id string) {
	if f.watched[id] {
		return
	}
	f.watched[id], f.lastAsked[id] = true, f.rootsOver()
	go func() {
		defer f.terminal.RestoreOnPanic()
		known := false
		err := f.svc.Watch(ctx, id, 0, func(ev api.Event) error {
			u := update{run: id, event: &ev}
			if !known {
				var err error
				if u.snapshot, err = f.svc.Run(ctx, id); err != nil {
					return err
				}
				known = true
			}
			return f.send(ctx, u)
		})
		u := update{run: id, over: true, err: err}
		if err == nil {
			u.snapshot, u.err = f.svc.Run(ctx, id)
		}
		_ = f.send(ctx, u)
	}()
}

// send passes an update to the loop.
func (f *follower) send(ctx context.Context, u update) error {
	select {
	case f.updates <- u:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// look reads the runs that have changed, for the live view. It does not wait for the answer: a stalled engine answers
// late, and the view shows meanwhile that it is stalled.
func (f *follower) look(ctx context.Context) {
	for id := range f.changed {
		if f.looking[id] {
			continue
		}
		delete(f.changed, id)
		f.looking[id] = true
		go func() {
			defer f.terminal.RestoreOnPanic()
			r, err := f.svc.Run(ctx, id)
			_ = f.send(ctx, update{run: id, snapshot: r, err: err})
		}()
	}
}

// take reports an update of a run.
func (f *follower) take(ctx context.Context, u update) error {
	if u.lines != nil {
		f.lineReader.shown, f.lineReader.reading = u.lines, false
		return nil
	}
	if u.err != nil && f.over[u.run] {
		return nil // it was being read when it ended
	}
	if f.notBegun(u) {
		return nil
	}
	if u.err != nil {
		if f.m != nil && f.m.Err() != nil {
			return f.engineEnded()
		}
		return fmt.Errorf("run %s: %w", u.run, u.err)
	}
	if u.firing {
		f.began(ctx, u.run)
		return nil
	}
	if u.snapshot != nil && f.watched[u.run] && !f.over[u.run] { // else it is outdated, or not followed
		f.runs[u.run] = u.snapshot
	}
	switch {
	case u.over:
		f.over[u.run] = true
		delete(f.changed, u.run)
		f.goOn(ctx, u.run)
	case u.event == nil:
		delete(f.looking, u.run)
	default:
		if f.terminal != nil {
			f.changed[u.run] = true
		}
		if f.printed != nil && f.wasTold(u.event) {
			f.printed.before(ctx, *u.event)
		} else if f.printed != nil {
			f.printed.event(ctx, *u.event)
		}
		if err := f.tell(*u.event); err != nil {
			return err
		}
		if f.isSchedule(u.run) && u.event.Type == "state.published" {
			if err := f.turned(ctx, u.event); err != nil {
				return err
			}
		}
		if u.event.Type == api.EventAttemptStarted && u.event.Child != "" &&
			(f.telling != tellPlain || f.printed != nil) {
			f.watch(ctx, u.event.Child)
		}
	}
	return nil
}

// goOn follows a chain: the next run takes the place of the one that ended. A chain may have no end.
func (f *follower) goOn(ctx context.Context, id string) {
	i := slices.Index(f.roots, id)
	r := f.runs[id]
	if i < 0 || r == nil || r.Next == "" {
		return
	}
	f.roots = append(f.roots, r.Next)
	f.watch(ctx, r.Next)
	f.forget(r.Previous)
}

// wasTold reports whether an event happened before this process carried its run.
func (f *follower) wasTold(ev *api.Event) bool {
	last, known := f.toldBefore[ev.Run]
	return known && ev.Seq <= last
}

func (f *follower) tell(ev api.Event) error {
	if f.wasTold(&ev) {
		return nil
	}
	f.told[ev.Run] = ev.Seq
	switch f.telling {
	case tellJSON:
		text, err := json.Marshal(ev)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(f.Out, "%s\n", text)
		return err
	case tellPlain:
		if ev.Type == api.EventAttemptHeartbeat || f.toldByTurns(&ev) {
			return nil
		}
		return f.tellPlainly(ev)
	default:
		return nil
	}
}

// tick checks whether the engine has stalled, and redraws.
func (f *follower) tick(ctx context.Context) error {
	if f.m != nil {
		if s := f.m.Stalled(); s != f.stalled {
			f.tellStalled(s)
			f.stalled = s
		}
	}
	f.watchExpected(ctx)
	f.look(ctx)
	f.readLines(ctx)
	if f.printed != nil {
		f.printed.poll(ctx)
	}
	return f.paint()
}

func (f *follower) tellStalled(s string) {
	if f.telling == tellLive {
		return
	}
	if s == "" {
		fmt.Fprintln(f.Err, "pawl: going on: the database takes writes again")
		return
	}
	fmt.Fprintf(f.Err, "pawl: stalled: %s; what was recorded is kept, attempts that end meanwhile may run again; "+
		"going on when there is room\n", screen.Clean(s))
}

// interrupted asks what to do, if a person is there to answer. Without one, and at the second signal, the command
// leaves the runs as they are: their state is durable.
func (f *follower) interrupted(s os.Signal) error {
	if s != os.Interrupt || f.asking || f.m == nil && !f.asks || f.terminal == nil || !f.terminal.Listens() {
		return errLeft
	}
	f.asking = true
	return f.paint()
}

// key handles a pressed key. Only answers to a question have a meaning, and Ctrl-C and Ctrl-\, which would be signals
// if nobody read the keys.
func (f *follower) key(ctx context.Context, k string) error {
	switch {
	case k == "ctrl+c":
		return f.interrupted(os.Interrupt)
	case k == `ctrl+\`:
		return errLeft
	case !f.asking:
		return nil
	}
	switch k {
	case "c", "C", "y":
		f.asking = false
		f.cancelAll(ctx)
		return f.paint()
	case "l", "L", "q":
		return errLeft
	case "g", "G", "n", "esc", "enter":
		f.asking = false
		return f.paint()
	default:
		return nil
	}
}

// cancelAll asks the engine to cancel the runs. It does not wait, since a stalled engine answers late and keys are read
// meanwhile.
func (f *follower) cancelAll(ctx context.Context) {
	var open []string
	for _, id := range f.roots {
		if !f.over[id] {
			open = append(open, id)
		}
	}
	go func() {
		defer f.terminal.RestoreOnPanic()
		err := f.cancel(ctx, open)
		select {
		case f.cancelled <- err:
		case <-ctx.Done():
		}
	}()
}

func (f *follower) cancel(ctx context.Context, ids []string) error {
	for _, id := range ids {
		op := api.Operation{Operation: api.OpCancel, Actor: f.who(), Reason: "asked with Ctrl-C"}
		if err := f.svc.Operate(ctx, id, op); err != nil && !isClosed(err) {
			return err
		}
	}
	return nil
}

// engineEnded explains an engine that ended on its own: its journal must no longer be written.
func (f *follower) engineEnded() error {
	err := f.m.Err()
	if err == nil {
		err = errors.New("the engine ended")
	}
	if errors.Is(err, journal.ErrGone) {
		return err // and nothing is left to go on with
	}
	return fmt.Errorf("%w\nWhat was reported is safe; go on with: pawl resume", err)
}

// status returns the exit status of the command: the worst one of the followed runs.
func (f *follower) status() int {
	status := exitOK
	for _, id := range f.roots {
		r := f.runs[id]
		if r == nil || !r.Phase.Closed() || r.Next != "" {
			continue
		}
		s := statusOfPhase(r.Phase)
		if rank(s) > rank(status) {
			status = s
		}
	}
	return status
}

// rank orders statuses: a failure is worse than a timeout, that than a cancellation.
func rank(status int) int {
	return slices.Index([]int{exitOK, exitCancelled, exitTimedOut, exitFailed}, status)
}
