package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/journal"
)

// telling is how what happens is told.
type telling uint8

const (
	tellLive  telling = iota // a tree, redrawn in place
	tellPlain                // a line an event
	tellJSON                 // a JSON object an event
	tellQuiet                // the output alone
)

// frameEvery is how often the live view is looked at for changes.
const frameEvery = 100 * time.Millisecond

// follower follows runs to their end and tells what happens.
type follower struct {
	*app
	svc     api.Service
	m       *machine // nil: another process carries the runs
	telling telling
	note    string // more to say about all of it

	roots   []string            // followed; where a chain goes on, its next run takes the place
	runs    map[string]*api.Run // as they were when last looked at
	changed map[string]bool     // something has happened since
	watched map[string]bool
	over    map[string]bool
	updates chan update
	stalled string
	others  int

	painter *screen.Painter
	asking  bool
}

// update is what a goroutine that watches one run has seen.
type update struct {
	run   string
	event api.Event
	over  bool
	err   error
}

// errLeft ends a following that leaves its runs open.
var errLeft = errors.New("left")

func (a *app) newFollower(svc api.Service, m *machine, how telling) *follower {
	return &follower{
		app: a, svc: svc, m: m, telling: how, runs: map[string]*api.Run{}, changed: map[string]bool{},
		watched: map[string]bool{}, over: map[string]bool{}, updates: make(chan update, 256),
	}
}

// chooseTelling is the live view on a terminal and lines elsewhere, unless flags say otherwise.
func (a *app) chooseTelling(asJSON, quiet bool) telling {
	switch {
	case quiet:
		return tellQuiet
	case asJSON || a.output == formatJSON:
		return tellJSON
	case isTerminal(a.Out) && os.Getenv("TERM") != "dumb":
		return tellLive
	default:
		return tellPlain
	}
}

// follow follows the runs until all have ended, or until it is told to leave: then the error is errLeft.
func (f *follower) follow(ctx context.Context, ids []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.roots = ids
	for _, id := range ids {
		f.watch(ctx, id)
	}
	signals := f.signals()
	defer signal.Stop(signals)
	keys, undo := f.begin()
	defer undo()
	ticker := time.NewTicker(frameEvery)
	defer ticker.Stop()
	var dead <-chan struct{}
	if f.m != nil {
		dead = f.m.Done()
	}
	for !f.allOver() {
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
			if err := f.interrupted(ctx, s); err != nil {
				return err
			}
		case k := <-keys:
			if err := f.key(ctx, k); err != nil {
				return err
			}
		case <-dead:
			return f.engineEnded()
		}
	}
	return f.paint(ctx)
}

// signals is where those come that ask the command to stop. Who carries runs takes them from before the runs begin.
func (f *follower) signals() chan os.Signal {
	if f.m != nil {
		return f.m.signals
	}
	return listen()
}

// listen takes the signals that ask the command to stop.
func listen() chan os.Signal {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	return signals
}

// allOver reports whether everything is told: the runs followed and their children have ended. A child that its parent
// has abandoned goes on without us.
func (f *follower) allOver() bool {
	for _, id := range f.roots {
		if !f.over[id] {
			return false
		}
	}
	for id := range f.watched {
		r := f.runs[id]
		if !f.over[id] && (r == nil || r.ParentClose != "abandon") {
			return false
		}
	}
	return true
}

// watch starts to watch a run, once.
func (f *follower) watch(ctx context.Context, id string) {
	if f.watched[id] {
		return
	}
	f.watched[id] = true
	send := func(u update) error {
		select {
		case f.updates <- u:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	go func() {
		err := f.svc.Watch(ctx, id, 0, func(ev api.Event) error { return send(update{run: id, event: ev}) })
		_ = send(update{run: id, over: true, err: err})
	}()
}

// take tells what a watcher has seen.
func (f *follower) take(ctx context.Context, u update) error {
	switch {
	case u.err != nil:
		if f.m != nil && f.m.Err() != nil {
			return f.engineEnded()
		}
		return fmt.Errorf("run %s: %w", u.run, u.err)
	case u.over:
		f.over[u.run] = true
		if err := f.look(ctx, u.run); err != nil {
			return err
		}
		f.goOn(ctx, u.run)
		return nil
	}
	f.changed[u.run] = true
	if f.runs[u.run] == nil { // what kind of run it is must be known
		if err := f.look(ctx, u.run); err != nil {
			return err
		}
	}
	if err := f.tell(u.event); err != nil {
		return err
	}
	if ev := u.event; ev.Type == api.EventAttemptStarted && ev.Child != "" && f.telling != tellPlain {
		f.watch(ctx, ev.Child)
	}
	return nil
}

// look reads a run as it is now.
func (f *follower) look(ctx context.Context, id string) error {
	r, err := f.svc.Run(ctx, id)
	if err != nil {
		if f.m != nil && f.m.Err() != nil {
			return f.engineEnded()
		}
		return fmt.Errorf("run %s: %w", id, err)
	}
	f.runs[id] = r
	delete(f.changed, id)
	return nil
}

// goOn follows a chain: the next run joins the one that ended, and takes the place of the one before that. A chain may have
// no end.
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

// forget lets go of a run that is over, with its children.
func (f *follower) forget(id string) {
	if !f.over[id] {
		return
	}
	f.roots = slices.DeleteFunc(f.roots, func(root string) bool { return root == id })
	delete(f.runs, id)
	delete(f.changed, id)
	delete(f.watched, id)
	delete(f.over, id)
	for child, r := range f.runs {
		if r.Parent == id {
			f.forget(child)
		}
	}
}

func (f *follower) tell(ev api.Event) error {
	switch f.telling {
	case tellJSON:
		text, err := json.Marshal(ev)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(f.Out, "%s\n", text)
		return err
	case tellPlain:
		if ev.Type == api.EventAttemptHeartbeat {
			return nil
		}
		_, err := fmt.Fprintln(f.Out, live.Plain(ev))
		return err
	default:
		return nil
	}
}

// tick looks whether the engine has stalled, and redraws.
func (f *follower) tick(ctx context.Context) error {
	if f.m != nil {
		if s := f.m.stalled(); s != f.stalled {
			f.tellStalled(s)
			f.stalled = s
		}
	}
	return f.paint(ctx)
}

func (f *follower) tellStalled(s string) {
	if f.telling == tellLive {
		return
	}
	if s == "" {
		fmt.Fprintln(f.Err, "pawl: going on: the database takes writes again")
		return
	}
	fmt.Fprintf(f.Err, "pawl: stalled: %s; nothing is lost, going on when there is room\n", screen.Clean(s))
}

// begin prepares the terminal for the live view.
func (f *follower) begin() (<-chan byte, func()) {
	if f.telling != tellLive {
		return nil, func() {}
	}
	f.painter = screen.NewPainter(f.Out, f.color(f.Out))
	undo := func() {}
	var keys chan byte
	if isTerminal(f.In) {
		if u, err := screen.Keys(f.In); err == nil {
			undo, keys = u, make(chan byte, 16)
			go readKeys(f.In, keys)
		}
	}
	return keys, func() {
		undo()
		_ = f.painter.End() // the terminal is gone where this fails
	}
}

// readKeys passes keys on. It ends with the process: a read from a terminal cannot be taken back.
func readKeys(in *os.File, keys chan<- byte) {
	buf := make([]byte, 16)
	for {
		n, err := in.Read(buf)
		for _, b := range buf[:n] {
			keys <- b
		}
		if err != nil {
			return
		}
	}
}

// paint draws the live view as it is now.
func (f *follower) paint(ctx context.Context) error {
	if f.painter == nil {
		return nil
	}
	for id := range f.changed {
		if err := f.look(ctx, id); err != nil {
			return err
		}
	}
	width, height := 80, 24
	if out, ok := f.Out.(*os.File); ok {
		if w, h, err := term.GetSize(int(out.Fd())); err == nil && w > 0 && h > 1 {
			width, height = w, h
		}
	}
	return f.painter.Paint(live.Frame(f.view(), apiNow(), width-1, height-1), width)
}

func (f *follower) view() live.View {
	v := live.View{Children: f.runs, Stalled: f.stalled, Others: f.others, Note: f.note}
	for _, id := range f.roots {
		if r := f.runs[id]; r != nil {
			v.Runs = append(v.Runs, r)
		}
	}
	if f.asking {
		what, it := "the run", "it"
		if len(v.Runs) > 1 {
			what, it = "all of these runs", "them"
		}
		v.Question = screen.Line{}.Add(screen.Reverse, " Stop? ").Add(screen.Plain,
			"  c cancel "+what+"   l leave "+it+" for later (pawl resume)   g go on")
	}
	return v
}

// interrupted asks what to do where there is somebody to ask, and leaves otherwise: the state is durable.
func (f *follower) interrupted(ctx context.Context, s os.Signal) error {
	if s != os.Interrupt || f.asking || f.painter == nil || !isTerminal(f.In) || f.m == nil {
		f.asking = false
		return errLeft
	}
	f.asking = true
	return f.paint(ctx)
}

// key takes a pressed key; only the answers to a question mean anything.
func (f *follower) key(ctx context.Context, k byte) error {
	if !f.asking {
		return nil
	}
	switch k {
	case 'c', 'C', 'y':
		f.asking = false
		return f.cancelAll(ctx)
	case 'l', 'L', 'q':
		f.asking = false
		return errLeft
	case 'g', 'G', 'n', 0x1b, '\r', '\n':
		f.asking = false
		return f.paint(ctx)
	default:
		return nil
	}
}

func (f *follower) cancelAll(ctx context.Context) error {
	for _, id := range f.roots {
		if f.over[id] {
			continue
		}
		op := api.Operation{Operation: api.OpInterrupt, Actor: f.who(), Reason: "asked with Ctrl-C"}
		if err := f.svc.Operate(ctx, id, op); err != nil && !isClosed(err) {
			return err
		}
	}
	return f.paint(ctx)
}

// engineEnded explains an engine that ended by itself: its journal must not be written any more.
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

// status is how the followed runs' ends end the command: the worst one.
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
