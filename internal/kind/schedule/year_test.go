package schedule_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/daemon/workflows"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/kind"
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/node"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/internal/schedules"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

var yearSeed = flag.Uint64("seed", 1, "the seed of TestYear")

// TestYear lets schedules live through a year in a cluster of two machines: with outages, machines that die, partitions
// that move, clocks that are set, pauses, edits, and firings that are taken out. Each firing has one run, or is told as
// missed with a reason that there was.
func TestYear(t *testing.T) {
	count, days := nightly.Few(15, 200), nightly.Few(40, 366) // the whole takes five minutes of a processor
	if nightly.Raced {
		count, days = 40, 90
	}
	synctest.Test(t, func(t *testing.T) {
		<-time.After(time.Until(time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC)))
		w := newWorld(t, *yearSeed, count)
		w.live(time.Duration(days) * 24 * time.Hour)
		w.check()
		w.close()
	})
}

// partitions is how many the database of the world has.
const partitions = 4

// world is a cluster with schedules.
type world struct {
	t         *testing.T
	r         *rand.Rand
	disk      *memory.Journal
	store     workflows.Store
	target    schedule.Target
	machines  [2]*machine
	ledger    *ledger
	schedules map[string]*planned
	agenda    []event
	disturbed []span // when not all was well
}

type event struct {
	at time.Time
	do func()
}

// span is a time from one instant to another one.
type span struct{ from, to time.Time }

// planned is a schedule as the world has asked for it.
type planned struct {
	name  string
	table *timetable   // as it is now
	all   []*timetable // as it was in its times, in their order
}

// machine is one of the cluster. Its process may be dead.
type machine struct {
	w     *world
	disk  *fragile
	node  *node.Node
	svc   *service.Embedded
	mu    sync.Mutex
	ahead time.Duration
	shown time.Time
}

// now returns what the machine takes for the time. To a process, time does not go back.
func (m *machine) now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now().Add(m.ahead); now.After(m.shown) {
		m.shown = now
	}
	return m.shown
}

// fragile is the journal as one process has it: when that is dead, it saves nothing any more.
type fragile struct {
	*memory.Journal
	mu     sync.Mutex
	dead   bool
	leases map[int]uint64
}

var errDead = errors.New("the machine is dead")

func (f *fragile) Acquire(ctx context.Context, partition int, owner string) (journal.Lease, error) {
	l, err := f.Journal.Acquire(ctx, partition, owner)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.leases[partition] = l.Epoch
	}
	return l, err
}

func (f *fragile) Append(ctx context.Context, b *journal.Batch) error {
	f.mu.Lock()
	dead := f.dead
	f.mu.Unlock()
	if dead {
		return errDead
	}
	return f.Journal.Append(ctx, b)
}

// die ends the leases of the process, as their time would.
func (f *fragile) die() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = true
	for partition, epoch := range f.leases {
		_ = f.Release(context.Background(), partition, epoch)
	}
}

func newWorld(t *testing.T, seed uint64, count int) *world {
	w := &world{
		t: t, r: rand.New(rand.NewPCG(seed, 7)), disk: memory.NewPartitions(partitions),
		schedules: map[string]*planned{}, ledger: newLedger(t),
	}
	w.disk.Fault = w.ledger.fault
	compiled, err := workflows.Compile(flowkind.Bundle{Flow: flowkind.Source{
		File: "work.yaml", Text: "pawl: 1\nname: work\nsteps: [{name: work, exec: [x, \"${{ run.workflowId }}\"]}]\n",
	}})
	w.ok(err)
	d, err := w.store.Keep(compiled)
	w.ok(err)
	w.target = schedule.Target{Workflow: d.Name, Kind: d.Kind, Definition: schedule.ID(d.ID), Source: d.Source}
	for i := range w.machines {
		w.machines[i] = &machine{w: w}
		w.boot(w.machines[i])
	}
	w.share()
	for i := range count {
		p := &planned{name: fmt.Sprintf("s%03d", i), table: newTimetable(w.r)}
		p.all = []*timetable{p.table}
		w.schedules[p.name] = p
		_, err := schedules.Ensure(t.Context(), w.owner(p).svc, &schedule.State{
			Name: p.name, Spec: p.table.spec(), Target: w.target,
		}, "world", "")
		w.ok(err)
	}
	return w
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// boot starts the process of a machine.
func (w *world) boot(m *machine) {
	m.mu.Lock()
	m.shown = time.Time{}
	m.mu.Unlock()
	m.disk = &fragile{Journal: w.disk, leases: map[int]uint64{}}
	now := func() core.Time { return policy.At(m.now()) }
	var err error
	m.node, err = node.New(node.Config{
		Engine: engine.Config{
			Journal: m.disk, Now: now, Shared: true, Retention: 48 * time.Hour,
			Sent: func(partition int) { go w.hint(m, partition) },
		},
		Plugins: []kind.Plugin{w.store.Plugin()},
	})
	w.ok(err)
	w.ok(m.node.Serve(worker.PoolConfig{Executors: map[string]worker.Executor{"exec": job{}}}))
	w.ok(m.node.Open(w.t.Context()))
	m.svc = service.NewEmbedded(m.node.Engine, w.store.Read, now)
}

// hint tells the other machine that messages have come for one of its partitions.
func (w *world) hint(from *machine, partition int) {
	for _, m := range w.machines {
		if m != from && m.node != nil {
			m.node.Engine.ExpectAt(partition)
		}
	}
}

// job is what the runs do: it takes a while, and sometimes fails.
type job struct{}

func (job) Execute(ctx context.Context, t *core.Task, _ worker.Alive) worker.Result {
	h := fnv.New64a()
	_, _ = h.Write(t.Payload) // it names the firing, so that a seed always gives the same
	r := rand.New(rand.NewPCG(h.Sum64(), uint64(t.Token.Attempt)))
	long := time.Duration(r.IntN(40)) * time.Minute
	if r.IntN(10) == 0 {
		long = time.Duration(r.IntN(60)) * time.Hour
	}
	select {
	case <-time.After(long):
	case <-ctx.Done():
		return worker.Result{Failure: &policy.Failure{Kind: policy.KindCancelled}}
	}
	if r.IntN(5) == 0 {
		return worker.Result{Failure: &policy.Failure{Kind: policy.KindFailed, Message: "bad luck"}}
	}
	return worker.Result{}
}

// share gives partitions that nobody has to the machines that live.
func (w *world) share() {
	for n := range partitions {
		if owner, _ := w.disk.Holder(n); owner != "" {
			continue
		}
		m := w.machines[n%2]
		if m.node == nil {
			m = w.machines[1-n%2]
		}
		if m.node != nil {
			w.disturb(0) // its clock may show another time than that of the owner before
			w.ok(m.node.Engine.Take(w.t.Context(), n))
		}
	}
	synctest.Wait()
}

// owner returns the machine that carries a schedule on; nil: it is dead.
func (w *world) owner(p *planned) *machine {
	key := core.KeyOfStart(schedule.Workflow, schedule.Prefix+p.name, "", 0)
	for _, m := range w.machines {
		if m.node != nil && slices.Contains(m.node.Engine.Owned(), int(key)%partitions) {
			return m
		}
	}
	return nil
}

// kill ends the process of a machine at once.
func (w *world) kill(m *machine) {
	if m.node == nil {
		return
	}
	m.disk.die()
	_ = m.node.Close()
	m.node, m.svc = nil, nil
}

func (w *world) close() {
	for _, m := range w.machines {
		w.ok(m.node.Close())
	}
}

func (w *world) later(d time.Duration, do func()) {
	at := time.Now().Add(d)
	i, _ := slices.BinarySearchFunc(w.agenda, at, func(e event, at time.Time) int { return e.at.Compare(at) })
	w.agenda = slices.Insert(w.agenda, i, event{at, do})
}

func (w *world) between(from, to time.Duration) time.Duration {
	return from + time.Duration(w.r.Int64N(int64(to-from)))
}

// live lets so much time pass. Much happens until a little before its end.
func (w *world) live(long time.Duration) {
	end := time.Now().Add(long)
	day := 24 * time.Hour
	often := func(n int, do func()) {
		for range n {
			w.later(w.between(time.Minute, long-12*day), do)
		}
	}
	months := 1 + int(long/(30*day))
	often(months, w.outage)
	often(2*months, w.death)
	often(4*months, w.move)
	often(months, w.clock)
	for _, name := range w.names() {
		p := w.schedules[name]
		often(1+months/3, func() { w.pause(p) })
		often(1+months/3, func() { w.edit(p) })
		often(1+months/2, func() { w.takeOut(p) })
	}
	for len(w.agenda) > 0 {
		next := w.agenda[0]
		w.agenda = w.agenda[1:]
		<-time.After(time.Until(next.at))
		synctest.Wait()
		next.do()
		synctest.Wait()
	}
	for _, name := range w.names() {
		w.change(w.schedules[name], schedule.OpResume, schedules.ScheduleChange{})
	}
	<-time.After(time.Until(end))
	synctest.Wait()
}

func (w *world) names() []string {
	var all []string
	for name := range w.schedules {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// change asks for a change, if there is somebody to ask, and reports whether there was.
func (w *world) change(p *planned, verb string, c schedules.ScheduleChange) bool {
	m := w.owner(p)
	if m == nil {
		return false
	}
	_, err := schedules.Do(w.t.Context(), m.svc, p.name, verb, c, m.now())
	if err != nil && !strings.Contains(err.Error(), "never fires again") {
		w.t.Fatalf("%s of %s: %v", verb, p.name, err)
	}
	synctest.Wait()
	return err == nil
}

func (w *world) pause(p *planned) {
	if !w.change(p, schedule.OpPause, schedules.ScheduleChange{Reason: "a move"}) {
		return
	}
	w.later(w.between(time.Minute, 10*24*time.Hour), func() { w.resume(p) })
}

func (w *world) resume(p *planned) {
	if !w.change(p, schedule.OpResume, schedules.ScheduleChange{}) {
		w.later(time.Hour, func() { w.resume(p) })
	}
}

// edit gives a schedule other times, or the same times with other rules.
func (w *world) edit(p *planned) {
	table := newTimetable(w.r)
	if w.r.IntN(3) == 0 {
		table.times, table.every, table.zone = p.table.times, p.table.every, p.table.zone
	}
	spec := table.spec()
	if w.change(p, schedule.OpUpdate, schedules.ScheduleChange{Spec: &spec}) {
		p.table = table
		p.all = append(p.all, table)
	}
}

func (w *world) takeOut(p *planned) { w.change(p, schedule.OpSkip, schedules.ScheduleChange{}) }

// disturb notes that not all is well for a time.
func (w *world) disturb(d time.Duration) {
	w.disturbed = append(w.disturbed, span{time.Now(), time.Now().Add(d)})
}

// outage ends all machines for a while.
func (w *world) outage() {
	for _, m := range w.machines {
		w.kill(m)
	}
	d := w.between(time.Minute, 5*24*time.Hour)
	if w.r.IntN(2) == 0 {
		d = w.between(time.Second, 2*time.Hour)
	}
	w.disturb(d)
	w.later(d, w.revive)
}

func (w *world) revive() {
	for _, m := range w.machines {
		if m.node == nil {
			w.boot(m)
		}
	}
	w.share()
}

// death ends one machine for a while. The other one takes its partitions when their leases have ended.
func (w *world) death() {
	w.kill(w.machines[w.r.IntN(2)])
	w.disturb(w.between(time.Second, time.Minute))
	w.later(w.between(time.Second, time.Minute), w.share)
	d := w.between(time.Minute, 24*time.Hour)
	if w.machines[0].node == nil && w.machines[1].node == nil {
		w.disturb(d) // the other one was dead already
	}
	w.later(d, w.revive)
}

// move gives a partition to the other machine.
func (w *world) move() {
	n := w.r.IntN(partitions)
	for i, m := range w.machines {
		if m.node == nil || !slices.Contains(m.node.Engine.Owned(), n) {
			continue
		}
		if other := w.machines[1-i]; other.node != nil {
			w.disturb(0)
			w.ok(m.node.Engine.Give(n))
			w.ok(other.node.Engine.Take(w.t.Context(), n))
		}
		return
	}
}

// clock sets the clock of a machine.
func (w *world) clock() {
	m := w.machines[w.r.IntN(2)]
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ahead = w.between(-2*time.Hour, 2*time.Hour)
	w.disturb(4 * time.Hour)
}
