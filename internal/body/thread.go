package body

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// The errors of a body that uses its context where it must not.
var (
	ErrContextEnded error = misuse("the context's run has ended, or its body has returned: do not keep a pawl.Context")
	ErrNested       error = misuse("a branch does one thing at a time: steps do not nest, use pawl.Go to do things " +
		"at once")
)

func misuse(message string) error {
	return &api.Error{Code: api.CodeMisuse, Message: message, Err: engine.ErrInvalid}
}

// Thread is a branch of a body from the view of the code in it. Its methods are called by the branch's goroutine, which
// they block where they wait; it ends in them where the body is unwound. It is a context.Context, too.
type Thread struct {
	live      *liveSession
	branch    *Branch
	scope     *Scope
	goroutine Goroutine // the goroutine of the branch's own thread; threads in a scope of their own have none
	ended     bool      // it has reported that the branch has ended
}

// Done returns a channel that is closed when the body is unwound.
func (t *Thread) Done() <-chan struct{} { return t.live.context().Done() }

// Err returns why Done is closed, nil while it is open.
func (t *Thread) Err() error { return t.live.context().Err() }

// Value returns a value of the context that the host was made with.
func (t *Thread) Value(key any) any { return t.live.host.ctx.Value(key) }

// Deadline returns the run's deadline, as it was when the body was called.
func (t *Thread) Deadline() (time.Time, bool) {
	h := t.Head()
	at := h.Execution.At.Earlier(h.Deadline.At)
	return at.Std(), at != 0
}

// Run returns the id of the run.
func (t *Thread) Run() core.RunID { return t.live.session.run }

// Head returns the data of its run that the body may use.
func (t *Thread) Head() *engine.Head { return t.live.session.head }

// Call names a call, for errors. Text is only made where there is one. The zero value names none.
type Call struct {
	kind, name string
	result     *Result // instead of these
}

// Named returns the name of a call of some kind, such as "step pay".
func Named(kind string, name ...string) Call { return Call{kind: kind, name: strings.Join(name, " ")} }

// String returns the name.
func (w Call) String() string {
	switch {
	case w.result != nil:
		return w.result.String()
	case w.name != "":
		return w.kind + " " + w.name
	default:
		return w.kind
	}
}

// enter locks the session for a call of the branch's. It returns an error where the context cannot be used now.
func (t *Thread) enter(what Call) error {
	l := t.live
	l.lock()
	switch s := l.session; {
	case s.returned:
		l.unlock()
		return fmt.Errorf("pawl: %s: %w", what, ErrContextEnded)
	case s.over():
		t.leave()
	case t.branch.busy != (Call{}):
		return t.misused(fmt.Errorf("pawl: %s while %s is waited for: %w", what, t.branch.busy, ErrNested))
	case !t.branch.thread.goroutine.Own():
		return t.misused(fmt.Errorf("pawl: %s is called by another goroutine than the branch's: begin it with pawl.Go "+
			"instead of go, and use the context that it gets: %w", what, ErrNested))
	}
	return nil
}

// misused notes that the run fails for a call that cannot work, and unlocks the session.
func (t *Thread) misused(err error) error {
	if t.live.session.invalid == nil {
		t.live.session.invalid = err
	}
	t.live.unlock()
	return err
}

func (t *Thread) exit() { t.live.unlock() }

// leave ends the branch's goroutine. The session is locked, and unlocked by it.
func (t *Thread) leave() {
	g := t.branch.thread.goroutine
	t.live.unlock()
	g.Exit()
}

// wait blocks the branch until something holds, which is asked with the session locked. It does not return where the
// session is over by then.
func (t *Thread) wait(what Call, until func() bool, on ...*Signal) {
	s := t.live.session
	if s.Wait(t.branch, what, until, on...) {
		g := t.branch.thread.goroutine
		t.live.unlock()
		g.Park()
		t.live.lock()
		t.branch.busy = Call{}
	}
	if s.over() || t.branch.state == branchEnded {
		t.leave()
	}
}

// Result is something that branches wait for: the end of a step or of a branch.
type Result struct {
	live   *liveSession
	step   *Step   // nil: of a branch
	branch *Branch // nil: of a step
	name   string  // the name of a branch, for errors
	spec   *core.StepSpec
}

// String names the result, for errors.
func (r *Result) String() string {
	if r.spec != nil {
		return Describe(r.spec)
	}
	return r.name
}

func (r *Result) settled() bool {
	if r.step != nil {
		return r.step.closed
	}
	return r.branch.state == branchEnded
}

func (r *Result) signal() *Signal {
	if r.step != nil {
		return &r.step.changed
	}
	return &r.branch.ended
}

// enterFor enters a call that waits for results. A result of another session has its own lock and could not wake this
// branch, so it is refused.
func (t *Thread) enterFor(what Call, results ...*Result) error {
	if err := t.enter(what); err != nil {
		return err
	}
	for _, r := range results {
		if r != nil && r.live != t.live {
			t.exit()
			return fmt.Errorf("pawl: %s belongs to another run: %w", r, ErrContextEnded)
		}
	}
	return nil
}

// Ask asks for a step of that name, which begins.
func (t *Thread) Ask(name string, cmd core.Schedule, fn Func) (*Result, error) {
	if err := t.enter(Named("step", name)); err != nil {
		return nil, err
	}
	cmd.Spec.Name = t.branch.Key(name)
	st := t.live.session.Ask(t.branch, t.scope, cmd, fn)
	if st == nil {
		t.leave()
	}
	t.exit()
	return &Result{live: t.live, step: st, spec: cmd.Spec}, nil
}

// Get waits for a result and returns its records, if it is a step's. The branch has seen its end then.
func (t *Thread) Get(r *Result) (engine.Step, error) { return t.await(Call{result: r}, r) }

// Await waits for a result as Get does, as part of a call of that name.
func (t *Thread) Await(call string, r *Result) (engine.Step, error) { return t.await(Named(call), r) }

func (t *Thread) await(what Call, r *Result) (engine.Step, error) {
	if err := t.enterFor(what, r); err != nil {
		return engine.Step{}, err
	}
	t.wait(what, r.settled, r.signal())
	t.branch.saw(r)
	var record engine.Step
	if r.step != nil {
		record = r.step.record // copied, since news of its end may still come
	}
	t.exit()
	return record, nil
}

// Go begins a branch of that name, in a goroutine that calls f. It ends by EndBranch.
func (t *Thread) Go(name string, f func(*Thread)) (*Result, error) {
	if err := t.enter(Named("branch", name)); err != nil {
		return nil, err
	}
	key := t.branch.Key(name)
	child := t.live.session.BeginBranch(t.branch, key)
	if child == nil {
		t.leave()
	}
	child.scope, child.ownScope = t.live.session.newScope(t.branch, t.scope, key+"/scope[0]"), true
	child.body = f
	t.exit()
	return &Result{live: t.live, branch: child, name: fmt.Sprintf("branch %q", name)}, nil
}

// Map runs f in a branch for each item, at most that many at once, until one fails. It returns when all that have begun
// have ended, with their number.
func (t *Thread) Map(name string, count, atOnce int, f func(t *Thread, item int)) (int, error) {
	what := Named("pawl.Map")
	if err := t.enter(what); err != nil {
		return 0, err
	}
	s := t.live.session
	g := &items{key: t.branch.Key(name), count: count, atOnce: atOnce}
	for t.beginItems(g, f); g.begun > g.ended; t.beginItems(g, f) {
		seen := g.ended
		t.wait(what, func() bool { return g.ended > seen }, &g.changed)
	}
	if s.missing(t.branch, g) {
		t.leave()
	}
	t.branch.causes = joined(t.branch.causes, g.causes)
	t.branch.seen.joins(&g.seen)
	t.exit()
	return g.begun, nil
}

// beginItems begins the branches of the items whose time has come.
func (t *Thread) beginItems(g *items, f func(t *Thread, item int)) {
	for {
		n, ok := t.live.session.round(t.branch, g)
		if !ok {
			t.leave()
		}
		if n == 0 {
			return
		}
		for range n {
			item := g.begun
			child := t.live.session.Spawn(t.branch, g.item(item))
			child.scope, child.group = t.scope, g
			g.begun++
			child.body = func(t *Thread) { f(t, item) }
		}
	}
}

// Version returns the version of a change that the run goes by. A branch that had passed this point may reach it after
// one that had not. So while recorded decisions are left, that one waits until all others wait.
func (t *Thread) Version(change string, oldest, newest int) (int, error) {
	what := Named("version", change)
	if err := t.enter(what); err != nil {
		return 0, err
	}
	s, key := t.live.session, "version/"+change
	if s.unread > 0 && !s.Replays(t.branch) && !s.versionKnown(key) {
		alone := false
		t.wait(what, func() bool { alone = alone || idles(s); return alone || s.versionKnown(key) }, &s.quiet)
	}
	v := s.version(t.branch, key, oldest, newest)
	if v < oldest || v > newest {
		s.changed(fmt.Sprintf("version %d of %q", v, change), fmt.Sprintf("one of %d to %d", oldest, newest))
		t.leave()
	}
	t.exit()
	return v, nil
}

// Now returns the instant of the latest end that the branch has seen.
func (t *Thread) Now() core.Time {
	what := Named("pawl.Now")
	t.live.lock()
	if t.live.session.over() || t.branch.busy != (Call{}) {
		defer t.live.unlock() // its own goroutine may go on
		return t.branch.seen.now
	}
	b := t.branch
	for st := b.seen.fold(); st != nil; st = b.seen.fold() {
		t.live.session.expect(b)
		t.wait(what, func() bool { return st.confirmed }, &st.changed)
	}
	now := b.seen.now
	t.exit()
	return now
}

// Draw hashes the run, the branch and how many were drawn before. It panics where another goroutine than the branch's
// calls it, a step's for example: which number that gets would be chance.
func (t *Thread) Draw(call string) [sha256.Size]byte {
	err := t.enter(Named(call))
	switch {
	case errors.Is(err, ErrNested):
		panic(err)
	case err == nil:
		defer t.exit()
	}
	b := t.branch
	b.draws++
	return sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d", t.live.session.run, b.prefix, b.draws))
}

// Replays reports whether the branch is still within the recorded decisions, or is over.
func (t *Thread) Replays() bool {
	t.live.lock()
	defer t.live.unlock()
	return t.live.session.over() || t.live.session.Replays(t.branch)
}

// Unreadable ends the call of the body because its code cannot read a recorded value as what it asks for. It does not
// return. The body is called again, by code that can read it, perhaps.
func (t *Thread) Unreadable(recorded, asked string, err error) {
	t.live.lock()
	t.live.session.Stop(Stuck{Why: Unreadable, Recorded: recorded, Asked: asked, Err: err})
	t.leave()
}

// Unencodable ends the call of the body because one of its values cannot be encoded for now. It does not return.
func (t *Thread) Unencodable(what string, err error) {
	t.NoteUnencodable(what, err)
	t.live.lock()
	t.leave()
}

// NoteUnencodable does what Unencodable does, for a body that has returned.
func (t *Thread) NoteUnencodable(what string, err error) {
	t.live.lock()
	defer t.live.unlock()
	t.live.session.Stop(Stuck{Why: Unencodable, Asked: what, Err: err})
}

// NoteInvalid notes that the body has made a call that makes no sense, for which the run fails. It reports whether
// it is the first.
func (t *Thread) NoteInvalid(err error) bool {
	t.live.lock()
	defer t.live.unlock()
	s := t.live.session
	if s.invalid != nil {
		return false
	}
	s.invalid = err
	return true
}

// Leaving returns the error of the body's first call that made no sense; over: the body is being unwound, and how
// it ends does not matter.
func (t *Thread) Leaving() (invalid error, over bool) {
	t.live.lock()
	defer t.live.unlock()
	return t.live.session.invalid, t.live.session.over()
}

// Unread returns the errors of branches that Go has begun and for whose ends nobody has waited, by the branch. The body
// has returned. If the call repeated recorded decisions, its branches may have further to go, so Unread waits until all
// of them wait.
func (t *Thread) Unread() map[string]error {
	t.live.lock() // not unlocked by a defer: the goroutine may end in the wait
	if s := t.live.session; !s.over() && t.branch.busy == (Call{}) {
		t.waitForAll(Named("its branches"))
	}
	all := map[string]error{}
	for _, b := range t.live.session.failed {
		if !b.read {
			all[strings.TrimSuffix(b.prefix, "/")] = b.err
		}
	}
	t.live.unlock()
	return all
}

// Return reports that the body has returned and how that closes the run. It reports false if a call was invalid after
// Leaving returned that error: the run has to be closed with it then.
func (t *Thread) Return(invalid error, out Outcome, c core.Close) bool {
	t.live.lock()
	defer t.live.unlock()
	s := t.live.session
	if !s.over() && t.branch.state == branchWaits && s.invalid == nil {
		s.invalid = fmt.Errorf("pawl: the body returned while another goroutine waited for %s: begin it with pawl.Go "+
			"instead of go: %w", t.branch.busy, ErrNested)
	}
	if !s.over() && s.invalid != nil && invalid == nil {
		return false
	}
	t.branch.thread.ended = true
	t.live.session.Return(t.branch, out, c)
	return true
}

// EndBranch reports that a branch that Go or Map began has returned.
func (t *Thread) EndBranch(out Outcome) {
	t.live.lock()
	defer t.live.unlock()
	t.branch.thread.ended = true
	t.live.session.EndBranch(t.branch, out)
}
