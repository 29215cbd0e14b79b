package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

// addDialect adds a test to a row, after the tests that the row has already.
func addDialect(id string, test func(t *testing.T)) {
	before := rows[id]
	rows[id] = func(t *testing.T) {
		if before != nil {
			before(t)
		}
		test(t)
	}
}

// try is what an attempt of a step does.
type try struct {
	run    time.Duration
	lines  []time.Duration // when it writes a line
	beats  []time.Duration // when it heartbeats; the details say so
	kind   policy.Kind     // the kind of its failure; 0: it succeeds
	typ    string
	code   int
	msg    string
	hang   bool          // it never ends by itself
	stops  time.Duration // how long it takes to stop when it is told to
	output string

	retryAfter *time.Duration // the delay that it asks for
}

var (
	ok     = try{}
	broken = try{kind: policy.KindError, code: 1, msg: "exit code 1"}
	failed = try{kind: policy.KindFailed, code: 2, msg: "known trouble"}
	hangs  = try{hang: true}
)

// stage runs documents on a real engine in virtual time. Its workers follow a script: the attempts of each step, of
// which the last is repeated. A step that the script does not name succeeds.
type stage struct {
	t         *testing.T
	script    map[string][]try
	mu        sync.Mutex
	played    map[string]int
	seen      []core.Task
	docs      map[string]*flow.Document
	chains    map[string]map[string]string
	defs      map[string]journal.Definition
	engine    *engine.Engine
	pool      *worker.Pool
	root      core.RunID
	journal   *memory.Journal
	began     time.Time
	input     string
	real      bool // processes, in real time
	exec      worker.ExecConfig
	across    bool     // a script goes on in the next run, instead of beginning anew in each
	slots     int      // how many attempts run at once; 0: the pool's default
	taskTypes []string // the types of the workers' functions
	leaves    []func() // ends what was begun beside the engine
	stops     int      // attempts that were told to stop
	files     int      // how many of the lists hold files, where no script says what a step that lists files finds
}

// Execute plays a step's next try.
func (s *stage) Execute(ctx context.Context, t core.Task, alive worker.Alive) worker.Result {
	s.mu.Lock()
	s.seen = append(s.seen, t)
	name := t.StepName
	tries := s.script[name]
	if i := strings.IndexByte(name, '['); tries == nil && i > 0 {
		tries = s.script[name[:i]]
	}
	key := t.Token.Run.String() + name
	if s.across {
		key = name
	}
	n := s.played[key]
	s.played[key]++
	s.mu.Unlock()
	if len(tries) == 0 {
		tries = []try{s.listed(name)}
	}
	return s.play(ctx, tries[min(n, len(tries)-1)], alive)
}

// change replaces the script for attempts that start from now on.
func (s *stage) change(script map[string][]try) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = script
}

// listed returns the attempt of a step that the script does not name: it lists files, or just succeeds.
func (s *stage) listed(name string) try {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !strings.HasSuffix(name, ".files") {
		return ok
	}
	if s.files--; s.files < 0 {
		return try{output: `{"files":""}`}
	}
	return try{output: `{"files":"tmp/one\ntmp/two"}`}
}

func (s *stage) play(ctx context.Context, do try, alive worker.Alive) worker.Result {
	from := time.Now()
	wait := func(d time.Duration) bool {
		timer := time.NewTimer(d - time.Since(from))
		defer timer.Stop()
		select {
		case <-timer.C:
			return true
		case <-ctx.Done():
			s.mu.Lock()
			s.stops++
			s.mu.Unlock()
			<-time.After(do.stops)
			return false
		}
	}
	stopped := worker.Result{Failure: &policy.Failure{Kind: policy.KindCancelled}}
	for _, at := range do.lines {
		if !wait(at) {
			return stopped
		}
		alive.Output()
	}
	for _, at := range do.beats {
		if !wait(at) {
			return stopped
		}
		alive.Heartbeat([]byte(strconv.Quote(duration.Format(at))))
	}
	if do.hang {
		do.run = 1000 * time.Hour
	}
	if !wait(do.run) {
		return stopped
	}
	if do.kind != 0 {
		return worker.Result{Output: []byte(do.output), Failure: &policy.Failure{
			Kind: do.kind, Type: do.typ, Code: do.code, Message: do.msg, RetryAfter: do.retryAfter,
		}}
	}
	return worker.Result{Output: []byte(do.output)}
}

// perform runs a conversion. act, which may be nil, acts on the run after its start.
func perform(t *testing.T, c *dialect.Conversion, script map[string][]try, act func(s *stage),
	check func(s *stage, r *core.Run), setup ...func(s *stage),
) {
	t.Helper()
	var direct, converted []string
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, c)
		s.script = script
		for _, set := range setup {
			set(s)
		}
		s.perform(c, act, func(s *stage, r *core.Run) {
			direct = append(s.attempts(), s.given()...)
			direct = append(direct, r.Phase.String())
			check(s, r)
		})
	})
	if len(c.Flow.Variables) > 0 {
		return
	}
	// The flows must do the same after they were written as files and read again.
	again := reread(t, c)
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, again)
		s.script = script
		for _, set := range setup {
			set(s)
		}
		s.perform(again, act, func(s *stage, r *core.Run) {
			converted = append(s.attempts(), s.given()...)
			converted = append(converted, r.Phase.String())
		})
	})
	if slices.ContainsFunc(c.Flow.Steps, func(s *flow.Step) bool { return s.Each != "" }) {
		unnumber(direct)
		unnumber(converted)
	}
	if !slices.Equal(direct, converted) {
		t.Errorf("run directly:\n  %s\nconverted and run:\n  %s", strings.Join(direct, "\n  "),
			strings.Join(converted, "\n  "))
	}
}

// itemNumber matches the number of an item in a step's name and in the name of its file. The items of a loop in a loop
// are numbered as they are found, and what ends at one instant is found in any order.
var itemNumber = regexp.MustCompile(`\[\d+\]|\.(out|dir)\.\d+`)

func unnumber(lines []string) {
	for i, line := range lines {
		lines[i] = itemNumber.ReplaceAllString(line, "[n]")
	}
	slices.Sort(lines)
}

// reread writes a conversion's flows as files and reads them.
func reread(t *testing.T, c *dialect.Conversion) *dialect.Conversion {
	t.Helper()
	again := func(doc *flow.Document) *flow.Document {
		if doc.Chain != nil {
			return doc // a chain of runs has no native form
		}
		text, err := flow.Encode(doc)
		if err != nil {
			t.Fatal(err)
		}
		out, err := flow.Parse(doc.Name+".yaml", text)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	out := &dialect.Conversion{Flow: again(c.Flow)}
	for _, child := range c.Children {
		out.Children = append(out.Children, again(child))
	}
	return out
}

// performReal runs a conversion with real processes in real time.
func performReal(t *testing.T, c *dialect.Conversion, input string, act func(s *stage),
	check func(s *stage, r *core.Run),
) {
	t.Helper()
	s := newStage(t, c)
	s.input, s.real = input, true
	s.perform(c, act, check)
}

func newStage(t *testing.T, c *dialect.Conversion) *stage {
	s := &stage{
		t: t, chains: c.Chains, journal: memory.New(), played: map[string]int{},
		docs: map[string]*flow.Document{}, defs: map[string]journal.Definition{},
	}
	for _, doc := range append([]*flow.Document{c.Flow}, c.Children...) {
		s.docs[doc.Name] = doc
		s.defs[doc.Name] = journal.Definition{
			ID: flow.ID([]byte(doc.Name)), Kind: "dialect",
			Name: doc.Name, Source: []byte(doc.Name),
		}
	}
	return s
}

func (s *stage) perform(c *dialect.Conversion, act func(s *stage), check func(s *stage, r *core.Run)) {
	s.t.Helper()
	s.open(c.Flow)
	if act != nil {
		act(s)
	}
	if _, err := s.engine.Result(s.t.Context(), s.root); err != nil {
		s.t.Fatal(err)
	}
	check(s, s.run())
	s.close()
}

// open opens an engine on the stage's journal, and starts a run of doc, if there is one.
func (s *stage) open(doc *flow.Document) {
	ctx := s.t.Context()
	builtin := flowkind.Executors(s.exec)
	if !s.real {
		builtin["exec"], builtin["http"] = s, s
	}
	for _, name := range s.taskTypes {
		builtin[name] = s
	}
	cfg := worker.PoolConfig{Executors: builtin}
	if s.slots > 0 {
		cfg.Slots = map[string]int{"exec": s.slots}
	}
	var err error
	drawn := uint64(0)
	s.engine, err = engine.New(engine.Config{
		Journal: s.journal,
		Random:  func() uint64 { drawn++; return drawn }, // jitter is a hash of the run's id
		Kinds:   s.kinds(),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	cfg.Reporter = s.engine
	s.pool = worker.NewPool(cfg)
	s.engine.Serve("", s.pool)
	if err := s.engine.Open(ctx); err != nil {
		s.t.Fatal(err)
	}
	if doc != nil {
		s.start(doc)
	}
}

// start starts a run of doc, which is the stage's from then on.
func (s *stage) start(doc *flow.Document) {
	start, err := doc.Start([]byte(s.input))
	if err != nil {
		s.t.Fatal(err)
	}
	s.began = time.Now()
	started, err := s.engine.Start(s.t.Context(), engine.StartRequest{
		Definition: s.defs[doc.Name], Start: core.Start{Input: start.Input, Execution: start.Execution, Run: start.Run},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.root = started.Run
}

// kinds returns the kind of the stage's workflows.
func (s *stage) kinds() map[string]engine.Kind {
	return map[string]engine.Kind{"dialect": {
		Compile: func(d journal.Definition) (*core.Definition, error) { return flow.Compile(s.docs[d.Name]) },
		Resolve: func(_ core.DefinitionID, name string) (journal.Definition, error) { return s.defs[name], nil },
	}}
}

func (s *stage) close() {
	for _, leave := range s.leaves {
		leave()
	}
	s.leaves = nil
	if err := s.pool.Close(context.Background()); err != nil {
		s.t.Error(err)
	}
	if err := s.engine.Close(); err != nil {
		s.t.Error(err)
	}
}

func (s *stage) run() *core.Run {
	r, err := s.engine.Inspect(s.t.Context(), s.root)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *stage) operate(op core.Operation) {
	s.t.Helper()
	op.Actor = "test"
	if err := s.engine.Operate(s.t.Context(), s.root, op); err != nil {
		s.t.Fatal(err)
	}
}

// pass lets virtual time pass. Everything that is due in that time happens.
func (s *stage) pass(d time.Duration) {
	<-time.NewTimer(d).C
	synctest.Wait()
}

// send delivers an event to the run.
func (s *stage) send(name, payload string) {
	s.t.Helper()
	if err := s.engine.Signal(s.t.Context(), s.root,
		core.SignalReceived{Name: name, Payload: []byte(payload)}, false); err != nil {
		s.t.Fatal(err)
	}
}

// attempts lists the attempts of all runs, each as step@start-end end, in the order of their starts.
func (s *stage) attempts() []string {
	s.t.Helper()
	page, err := s.engine.List(s.t.Context(), journal.Query{Limit: 10_000})
	if err != nil {
		s.t.Fatal(err)
	}
	type attempt struct {
		at, end time.Duration
		name    string
		how     string
	}
	var all []attempt
	for _, row := range page.Runs {
		entries, err := s.engine.Entries(s.t.Context(), row.ID, 0)
		if err != nil {
			s.t.Fatal(err)
		}
		def, err := flow.Compile(s.docs[row.Workflow])
		if err != nil {
			s.t.Fatal(err)
		}
		teller := core.NewTeller(row.ID, def)
		for _, e := range entries {
			for _, ev := range teller.Events(e) {
				if ev.Type != core.EventAttemptEnded {
					continue
				}
				how := "ok"
				if ev.Failure != nil {
					how = ev.Failure.Kind.String()
					if ev.Failure.Limit != policy.LimitNone {
						how += " " + ev.Failure.Limit.String()
					}
				}
				end := ev.At.Std().Sub(s.began)
				all = append(all, attempt{end - ev.Took, end, ev.Step, how})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b attempt) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return strings.Compare(a.name, b.name)
	})
	lines := make([]string, len(all))
	for i, a := range all {
		lines[i] = fmt.Sprintf("%s@%s-%s %s", a.name, duration.Format(a.at.Round(time.Millisecond)),
			duration.Format(a.end.Round(time.Millisecond)), a.how)
	}
	return lines
}

// given lists the payloads of the attempts.
func (s *stage) given() []string {
	var out []string
	for _, t := range s.seen {
		out = append(out, t.StepName+" "+string(t.Payload))
	}
	slices.Sort(out)
	return out
}

func (s *stage) wantAttempts(want ...string) {
	s.t.Helper()
	if got := s.attempts(); !slices.Equal(got, want) {
		s.t.Errorf("attempts:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// starts lists when a step's attempts began.
func (s *stage) starts(step string) []time.Duration {
	s.t.Helper()
	var out []time.Duration
	for _, line := range s.attempts() {
		name, rest, _ := strings.Cut(line, "@")
		if at, _, _ := strings.Cut(rest, "-"); name == step {
			d, err := duration.Parse(at)
			if err != nil {
				s.t.Fatal(err)
			}
			out = append(out, d)
		}
	}
	return out
}

// command returns the command line of the nth attempt that a worker was given.
func (s *stage) command(n int) []string {
	s.t.Helper()
	var p struct{ Command []string }
	if n >= len(s.seen) {
		s.t.Fatalf("there was no task %d", n)
	}
	if err := json.Unmarshal(s.seen[n].Payload, &p); err != nil {
		return nil
	}
	return p.Command
}

func wantPhase(t *testing.T, r *core.Run, want core.RunPhase) {
	t.Helper()
	if r.Phase != want {
		t.Errorf("the run is %s, want %s (%+v)", r.Phase, want, r.Failure)
	}
}
