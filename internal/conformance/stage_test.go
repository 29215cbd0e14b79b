package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
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
	"github.com/pawl-dev/pawl/internal/kind"
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

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
		Definition: s.defs[doc.Name],
		Start:      core.Start{Input: start.Input, Execution: start.Execution, Run: start.Run},
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
		Child: kind.Children(func(_ core.DefinitionID, name string) (journal.Definition, error) {
			return s.defs[name], nil
		}),
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
