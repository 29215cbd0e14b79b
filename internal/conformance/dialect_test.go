package conformance

import (
	"context"
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
func (s *stage) Execute(ctx context.Context, t *core.Task, alive worker.Alive) worker.Result {
	s.mu.Lock()
	s.seen = append(s.seen, *t)
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
