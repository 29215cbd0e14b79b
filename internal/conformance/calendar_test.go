package conformance

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/daemon/workflows"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/kind"
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
	"github.com/pawl-dev/pawl/internal/node"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/internal/schedules"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

// calendar is a process with schedules of flows, in virtual time that begins at midnight of a Saturday, 1 January 2000.
// Its exec steps follow a script, as those of a stage do.
type calendar struct {
	t       *testing.T
	stage   *stage
	journal *memory.Journal
	store   *workflows.Store
	node    *node.Node
	svc     api.Service
	leave   func()

	mu    sync.Mutex
	ahead time.Duration // how much later the clock of the machine shows than it is
	shown time.Time     // the latest that it has shown: to the process, time does not go back
}

// inCalendar runs a test with such a process.
func inCalendar(t *testing.T, script map[string][]try, test func(t *testing.T, c *calendar)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &calendar{
			t: t, journal: memory.NewPartitions(3),
			stage: &stage{t: t, script: script, played: map[string]int{}, across: true},
		}
		c.open()
		defer func() { c.close() }()
		test(t, c)
	})
}

func (c *calendar) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now().Add(c.ahead); now.After(c.shown) {
		c.shown = now
	}
	return c.shown
}

// set sets the clock of the machine.
func (c *calendar) set(ahead time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead = ahead
}

// open opens the process on what is stored.
func (c *calendar) open() {
	c.store = &workflows.Store{}
	var err error
	c.node, err = node.New(node.Config{
		Engine:  engine.Config{Journal: c.journal, Now: func() core.Time { return policy.At(c.now()) }},
		Plugins: []kind.Plugin{c.store.Plugin()},
	})
	must(c.t, err)
	must(c.t, c.node.Serve(worker.PoolConfig{Executors: map[string]worker.Executor{"exec": c.stage}}))
	must(c.t, c.node.Open(c.t.Context()))
	own := service.NewEmbedded(c.node.Engine, c.store.Read, func() core.Time { return policy.At(c.now()) })
	c.svc, c.leave = through(own)
}

func (c *calendar) close() {
	c.leave()
	must(c.t, c.node.Close())
}

// crash ends the process as kill -9 does. What was not saved is lost.
func (c *calendar) crash() {
	c.journal = c.journal.Reopen() // the process cannot save anything from here on
	c.leave()
	_ = c.node.Close()
}

// pass lets time pass, with everything that is due in that time.
func (c *calendar) pass(d time.Duration) {
	<-time.NewTimer(d).C
	synctest.Wait()
}

// away lets time pass while nobody is there.
func (c *calendar) away(d time.Duration) {
	c.crash()
	c.pass(d)
	c.open()
	synctest.Wait()
}

// flow reads the text of a flow, whose name is n.
func (c *calendar) flow(text string) *workflows.Compiled {
	c.t.Helper()
	w, err := workflows.Compile(flowkind.Bundle{Flow: flowkind.Source{
		File: "n.yaml", Text: "pawl: 1\nname: n\n" + text,
	}})
	must(c.t, err)
	return w
}

// ensure gives a flow its schedule, n, and returns what of it has changed.
func (c *calendar) ensure(text string) schedules.Ensured {
	c.t.Helper()
	w := c.flow(text)
	d, err := c.store.Keep(w)
	must(c.t, err)
	out, err := schedules.Ensure(c.t.Context(), c.svc, &schedule.State{
		Name: "n", Spec: w.Doc.Cron.Spec(), Target: schedule.Target{
			Workflow: d.Name, Kind: d.Kind, Definition: schedule.ID(d.ID), Source: d.Source,
		},
	}, "test", "")
	must(c.t, err)
	synctest.Wait()
	return out
}

// do changes the schedule.
func (c *calendar) do(verb string, change schedules.ScheduleChange) schedules.ScheduleChanged {
	c.t.Helper()
	out, err := schedules.Do(c.t.Context(), c.svc, "n", verb, change, c.now())
	must(c.t, err)
	synctest.Wait()
	return out
}

// refused returns why a change is refused.
func (c *calendar) refused(verb string, change schedules.ScheduleChange) string {
	c.t.Helper()
	_, err := schedules.Do(c.t.Context(), c.svc, "n", verb, change, c.now())
	if err == nil {
		c.t.Fatalf("%s of %+v is not refused", verb, change)
	}
	return err.Error()
}

// schedule returns the schedule as it stands.
func (c *calendar) schedule() schedules.Schedule {
	c.t.Helper()
	s, err := schedules.Get(c.t.Context(), c.svc, "n", c.now())
	must(c.t, err)
	return s
}

// runs returns the runs of the schedule, the oldest first.
func (c *calendar) runs() []*api.Run {
	c.t.Helper()
	var all []*api.Run
	q := api.Query{Labels: map[string]string{schedule.Label: "n"}, Limit: 500}
	for more := true; more; {
		page, err := c.svc.Runs(c.t.Context(), q)
		must(c.t, err)
		for _, row := range page.Runs {
			r, err := c.svc.Run(c.t.Context(), row.Run)
			must(c.t, err)
			all = append(all, r)
		}
		more, q.Cursor = page.Next != "", page.Next
	}
	slices.SortStableFunc(all, func(a, b *api.Run) int {
		if a.CreatedAt != b.CreatedAt {
			return int(a.CreatedAt - b.CreatedAt)
		}
		return strings.Compare(a.WorkflowID, b.WorkflowID)
	})
	return all
}

// told returns each run as the day and time of its firing in its zone, when it began where that is later, and how it
// stands.
func (c *calendar) told() string {
	c.t.Helper()
	var out []string
	for _, r := range c.runs() {
		zone, err := time.LoadLocation(r.Zone)
		must(c.t, err)
		text := "now"
		if r.ScheduledAt != 0 {
			text = r.ScheduledAt.Std().In(zone).Format("02 15:04")
		}
		if r.StartedAt != 0 && r.StartedAt.Sub(r.ScheduledAt) > time.Second {
			text += " at " + r.StartedAt.Std().In(zone).Format("15:04")
		}
		out = append(out, text+" "+string(r.Phase))
	}
	return strings.Join(out, ", ")
}

// want compares the runs.
func (c *calendar) want(want string) {
	c.t.Helper()
	if got := c.told(); got != want {
		c.t.Errorf("the runs are\n%s\nwant\n%s", got, want)
	}
}

// missed compares what was missed.
func (c *calendar) missed(want string) {
	c.t.Helper()
	var out []string
	s := c.schedule()
	for _, m := range s.Recent {
		text := m.From.Format("02 15:04")
		if m.Count > 1 {
			text += fmt.Sprintf("-%s (%d)", m.To.Format("15:04"), m.Count)
		}
		out = append(out, text+" "+m.Reason)
	}
	if got := strings.Join(out, ", "); got != want {
		c.t.Errorf("missed are\n%s\nwant\n%s", got, want)
	}
}

// must fails the test because of an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
