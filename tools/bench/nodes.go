package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/cluster"
	"github.com/pawl-dev/pawl/internal/journal/postgres"
)

// nodeWorks are the rows about nodes, which share a database in PostgreSQL. Each node is a process.
var nodeWorks = []work{
	{"takeover", "a node is killed: until others have its partitions", "<= 5 s with a lease of 3 s", takeover},
	{"drain", "a node is told to stop: until others have its partitions", "<= 200 ms", drained},
	{"fresh", "a node starts on 1000000 open runs: until a run of its own ends", "<= 2 s", freshNode},
	{"nodes", "onestep by 4 nodes, 5 ms from the database", ">= 3.5 x one node", fourNodes},
}

// nodeClients is how many clients each node has. They are few, so that neither one node nor four need all of the
// machine's cores: the row compares how nodes wait for the database.
const nodeClients = 16

// farAway is the round trip to the database from nodes that are far from it.
const farAway = 5 * time.Millisecond

// nodes are the nodes of a row.
type nodes struct {
	all   []*process
	stand cluster.Storage
	close func() error
}

// startNodes starts nodes on the row's database, or on another address of it, and waits until they share it evenly.
func (s *session) startNodes(ctx context.Context, address *url.URL, count, clients int) (_ *nodes, err error) {
	if err := s.prepareNodes(address); err != nil {
		return nil, err
	}
	ns := &nodes{}
	defer func() {
		if err != nil {
			ns.kill()
		}
	}()
	for range count {
		p, err := s.child(ctx, "node", s.dir, clients)
		if err != nil {
			return nil, err
		}
		ns.all = append(ns.all, p)
		if _, err := p.expect("ready"); err != nil {
			return nil, p.fail(err)
		}
	}
	j, err := postgres.Open(ctx, s.server.address.String())
	if err != nil {
		return nil, err
	}
	ns.close = j.Close
	ns.stand, _ = j.(cluster.Shareable).Nodes()
	_, err = ns.until(ctx, func(owned map[string]int, free int) bool {
		if len(owned) != count || free > 0 {
			return false
		}
		least, most := 1<<30, 0
		for _, n := range owned {
			least, most = min(least, n), max(most, n)
		}
		return most-least <= 1
	})
	return ns, err
}

// until reads who owns the partitions until the answer is yes, and returns the longest time in which one of them had no
// owner. It asks every few milliseconds.
func (ns *nodes) until(
	ctx context.Context, so func(owned map[string]int, free int) bool,
) (gap time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the nodes have not shared the partitions"+
		" within a minute"))
	defer cancel()
	since := map[int]time.Time{}
	for {
		stand, err := ns.stand.Snapshot(ctx)
		if err != nil {
			return gap, errors.Join(err, context.Cause(ctx))
		}
		owned := map[string]int{}
		for i, p := range stand.Partitions {
			if p.Owner != "" && p.Alive {
				owned[p.Owner]++
				delete(since, i)
				continue
			}
			if since[i].IsZero() {
				since[i] = time.Now()
			}
			gap = max(gap, time.Since(since[i]))
		}
		if so(owned, len(since)) {
			return gap, nil
		}
		rest(ctx, 2*time.Millisecond)
	}
}

// kill ends all nodes.
func (ns *nodes) kill() {
	for _, p := range ns.all {
		p.kill()
	}
	if ns.close != nil {
		_ = ns.close() // it was only read
	}
}

// takeover kills one of three nodes that work.
func takeover(ctx context.Context, s *session) (Row, error) {
	row, err := s.without(ctx, func(p *process) error { p.kill(); return nil })
	row.Value, row.Unit = row.P99/1e3, "s (worst)"
	row.reached = row.P99 <= 5000
	return row, err
}

// drained tells one of three nodes that work to stop.
func drained(ctx context.Context, s *session) (Row, error) {
	row, err := s.without(ctx, func(p *process) error { return p.stdin.Close() })
	row.Value, row.Unit = row.P99, "ms (worst)"
	row.reached = row.P99 <= 200
	return row, err
}

// without measures several times how long it takes until the others have the partitions of a node that ends.
func (s *session) without(ctx context.Context, end func(*process) error) (Row, error) {
	var took, gaps []time.Duration
	stop := meter()
	for range pick(s, 5, 2) {
		ns, err := s.startNodes(ctx, s.server.address, 3, nodeClients)
		if err != nil {
			return Row{}, err
		}
		from := time.Now()
		err = end(ns.all[0])
		var gap time.Duration
		if err == nil {
			gap, err = ns.until(ctx, func(owned map[string]int, free int) bool { return len(owned) == 2 && free == 0 })
		}
		took, gaps = append(took, time.Since(from)), append(gaps, gap)
		if err == nil {
			err = ns.works(ctx, s)
		}
		ns.kill()
		if err != nil {
			return Row{}, err
		}
		if err := s.server.drop(ctx); err != nil {
			return Row{}, err
		}
		s.logf("the others have its partitions after %.3g ms; one had no owner for %.3g ms",
			took[len(took)-1].Seconds()*1e3, gap.Seconds()*1e3)
	}
	used := stop()
	sum, gap := summarise(took), summarise(gaps)
	return Row{P50: sum.p50, P99: sum.p99, CPU: used.cpu.Seconds(), RSS: resident(), detail: fmt.Sprintf(
		"%d times; a partition had no owner for %.3g ms (p50), %.3g ms at worst%s", sum.count, gap.p50, gap.p99,
		used)}, nil
}

// works checks that runs end in all partitions.
func (ns *nodes) works(ctx context.Context, s *session) error {
	from, err := s.server.batches(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute,
		errors.New("a partition that was taken over does nothing"))
	defer cancel()
	for {
		now, err := s.server.batches(ctx)
		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if !slices.ContainsFunc(now, func(n int64) bool { return slices.Contains(from, n) }) {
			return nil
		}
		rest(ctx, 10*time.Millisecond)
	}
}

// freshNode starts a node on a database in which many runs sleep, and which nobody owns.
func freshNode(ctx context.Context, s *session) (Row, error) {
	n := pick(s, 1_000_000, 50_000)
	e, err := pawl.Open(ctx, pawl.Config{
		Database: s.server.address.String(), Workflows: []pawl.Definition{goSleep},
	})
	if err != nil {
		return Row{}, err
	}
	err = each(ctx, n, inFlight, func(ctx context.Context, _ int) error {
		_, err := goSleep.Start(ctx, e, "", 0)
		return err
	})
	if err := errors.Join(err, e.Close()); err != nil {
		return Row{}, err
	}
	s.logf("%d runs sleep", n)
	if err := s.prepareNodes(s.server.address); err != nil {
		return Row{}, err
	}
	var took []time.Duration
	stop := meter()
	for range pick(s, 5, 2) {
		from := time.Now()
		p, err := s.child(ctx, "node", s.dir, 1)
		if err != nil {
			return Row{}, err
		}
		at, err := p.expect("ready")
		if err != nil {
			return Row{}, p.fail(err)
		}
		took = append(took, at.Sub(from))
		s.logf("ready after %.3g s", at.Sub(from).Seconds())
		if err := errors.Join(p.stdin.Close(), p.wait()); err != nil {
			return Row{}, err
		}
	}
	used, sum := stop(), summarise(took)
	row := Row{Value: sum.p50 / 1e3, Unit: "s (p50)", P50: sum.p50, P99: sum.p99, CPU: used.cpu.Seconds()}
	row.detail, row.reached = fmt.Sprintf("%d open runs, %d times%s", n, sum.count, used), sum.p50 <= 2000
	return row, nil
}

// fourNodes compares the rate of four nodes that are far from the database with that of one.
func fourNodes(ctx context.Context, s *session) (Row, error) {
	far, err := newFar(ctx, s.server.address, farAway/2)
	if err != nil {
		return Row{}, err
	}
	defer far.close()
	var rates [2][]float64
	stop := meter()
	for range pick(s, 3, 1) {
		for i, count := range []int{1, 4} {
			rate, err := s.rateOf(ctx, far, count)
			if err != nil {
				return Row{}, err
			}
			rates[i] = append(rates[i], rate)
			s.logf("%d nodes: %.0f runs/s", count, rate)
		}
	}
	used := stop()
	row := Row{Value: median(rates[1]) / median(rates[0]), Unit: "x one node", CPU: used.cpu.Seconds()}
	row.reached = row.Value >= 3.5
	row.detail = fmt.Sprintf("%.0f runs/s by four nodes, %.0f by one, each with %d clients%s", median(rates[1]),
		median(rates[0]), nodeClients, used)
	return row, nil
}

// rateOf returns how many runs a second some nodes carry to their end, as the database has it afterwards.
func (s *session) rateOf(ctx context.Context, far *far, count int) (float64, error) {
	ns, err := s.startNodes(ctx, far.address, count, nodeClients)
	if err != nil {
		return 0, err
	}
	rest(ctx, pick(s, 3*time.Second, time.Second))
	from := time.Now()
	rest(ctx, s.length())
	to := time.Now()
	for _, p := range ns.all {
		err = errors.Join(err, p.stdin.Close(), p.wait())
	}
	err = errors.Join(err, ns.close())
	if err != nil {
		return 0, err
	}
	var ended float64
	err = s.server.ask(ctx, "SELECT count(*) FROM {schema}.runs WHERE ended_at >= $1 AND ended_at < $2",
		func(r pgx.Rows) error { return r.Scan(&ended) }, from, to)
	return ended / to.Sub(from).Seconds(), errors.Join(err, s.server.drop(ctx))
}

// batches returns the last batch of each partition.
func (sv *server) batches(ctx context.Context) (all []int64, err error) {
	err = sv.ask(ctx, "SELECT last * 1000 + partition FROM {schema}.partitions", func(r pgx.Rows) error {
		var n int64
		err := r.Scan(&n)
		all = append(all, n)
		return err
	})
	return all, err
}

// ask reads the rows of a query.
func (sv *server) ask(ctx context.Context, text string, row func(pgx.Rows) error, args ...any) error {
	c, err := sv.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	rows, err := c.Query(ctx, strings.ReplaceAll(text, "{schema}", sv.schema), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
