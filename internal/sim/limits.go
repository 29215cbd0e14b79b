package sim

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// serviceLimits are the services that flows use, the same ones in every universe.
var serviceLimits = map[string]policy.QueueLimits{
	"mail": {Concurrency: 1},
	"fax":  {PerKey: 1, Fair: true},
	"bank": {Rate: policy.Rate{N: 3, Per: 20 * time.Second}, KeyRate: policy.Rate{N: 1, Per: 10 * time.Second}},
	"shop": {
		Retries: policy.Rate{N: 2, Per: 30 * time.Second},
		Breaker: policy.Breaker{Failures: 2, Of: 4, Pause: 5 * time.Second, MaxPause: time.Minute},
	},
	"ship": {
		Concurrency: 3, Rate: policy.Rate{N: 5, Per: time.Minute},
		Breaker: policy.Breaker{Failures: 3, Pause: 2 * time.Second},
	},
}

// serviceText is the same in the form of flow files.
const serviceText = `services:
  mail: {limits: {concurrency: 1}}
  fax: {limits: {perKey: 1, fair: true}}
  bank: {limits: {rate: 3/20s, keyRate: 1/10s}}
  shop: {limits: {retries: 2/30s, breaker: {failures: 2, of: 4, pause: 5s, maxPause: 1m}}}
  ship: {limits: {concurrency: 3, rate: 5/1m, breaker: {failures: 3, pause: 2s}}}
`

// service makes a task use a service, in some flows. It uses its own random numbers, so that the other flows stay as
// they are.
func (g *flowGenerator) service(indent int) {
	if g.shared == nil || !g.shared.chance(0.8) {
		return
	}
	g.line(indent, "service: %s", pick(*g.shared, []string{"mail", "fax", "bank", "shop", "shop", "ship"}))
	if g.shared.chance(0.5) {
		g.line(indent, `key: "k${{ input.n }}"`)
	}
}

// failingServices makes a service fail for a while in many universes. It uses its own random numbers.
func failingServices(u *universe) map[string]core.Time {
	own := newRandom(u.seed, 0xfa11)
	out := map[string]core.Time{}
	for _, name := range []string{"shop", "ship"} {
		if !u.opt.NoFaults && own.chance(0.6) {
			out[name] = epoch.Add(own.span(30*time.Second, time.Hour))
		}
	}
	return out
}

// serviceFails reports whether the service that the attempt uses fails now.
func (wt *workerTask) serviceFails() bool {
	u := wt.w.n.u
	a := u.checker.accounts[wt.task.Token.Run]
	if u.noFaults || a == nil || int(wt.task.Token.Step) >= len(a.model.steps) {
		return false
	}
	share := a.model.steps[wt.task.Token.Step].spec.Share
	return share != nil && u.now < u.failing[share.Service]
}

// serviceModel is the checker's own idea of a service, as one process counts it.
type serviceModel struct {
	name    string
	limits  policy.QueueLimits
	starts  []serviceStart
	running map[core.Token]bool // started and not ended
	last    []bool              // how attempts ended since the breaker last opened or closed; true: failed
	open    bool
	until   core.Time
	probes  int // number of probes that have failed
	probe   core.Token
	probeAt core.Time // its start
	unknown bool      // the process knows more about the breaker than the model
	shared  bool      // the process is a shared one
}

type serviceStart struct {
	at    core.Time
	told  core.Time // the instant in the journal, if the clock has gone back since
	key   string
	retry bool
	moved bool // the exact time is unknown
}

// serviceOf returns the node's model of the service that a step uses, or nil if it uses none.
func (n *node) serviceOf(s *stepModel) *serviceModel {
	if s.spec.Share == nil || s.spec.Share.Service == "" {
		return nil
	}
	name := s.spec.Share.Service
	p := n.process
	if p.services[name] == nil {
		p.services[name] = &serviceModel{
			name: name, limits: serviceLimits[name], running: map[core.Token]bool{}, unknown: p.foundOpen[name],
			shared: p.shared,
		}
	}
	return p.services[name]
}

// ahead notes that an append was refused. The process knows the ends of attempts before the journal does, and counts
// starts that the journal never gets.
func (n *node) ahead() {
	n.process.refused = n.u.latest()
	for _, m := range n.process.services {
		m.unknown = true
	}
}

// countsRefused reports whether a process may still count starts in a rate's window that a refused append would have
// recorded.
func (p *process) countsRefused(window time.Duration, now core.Time) bool {
	return p.refused != 0 && p.refused.Add(window) > now
}

// findOpen notes the services whose breakers a process finds open.
func (ch *checker) findOpen(n *node) {
	if n.lookedAt {
		return
	}
	n.lookedAt = true
	for _, a := range ch.order {
		if ch.u.partitionOf(a.id) != n.home || a.model.closed {
			continue
		}
		for i := range a.model.steps {
			s := &a.model.steps[i]
			if s.held.Reason != core.HeldBreaker {
				continue
			}
			n.process.foundOpen[s.held.Name] = true
			if m := n.process.services[s.held.Name]; m != nil {
				m.unknown = true
			}
		}
	}
}

// limited checks the starts and ends of an entry against the limits of services.
func (ch *checker) limited(n *node, a *account, e core.Entry) {
	for _, rec := range e.Records {
		switch rec := rec.(type) {
		case core.AttemptStarted:
			s := &a.model.steps[rec.Step]
			if m := n.serviceOf(s); m != nil {
				m.unknown = m.unknown || n.undecided()
				tok := core.Token{Run: a.id, Step: rec.Step, Attempt: s.attempt}
				m.start(ch, tok, serviceStart{
					at: e.At, key: a.state.Steps[rec.Step].ShareKey(), retry: s.counted > 1,
				})
			}
		case core.AttemptEnded:
			m := n.serviceOf(&a.model.steps[rec.Step])
			if m == nil {
				continue
			}
			m.unknown = m.unknown || n.undecided()
			for tok := range m.running {
				if tok.Run == a.id && tok.Step == rec.Step {
					m.end(tok, rec.Failure, e.At)
				}
			}
		default:
		}
	}
}

// goesOn notes that a process has found a live attempt of a remote worker: its end has the same effect on the breaker
// of its service as if it had begun in this process.
func (ch *checker) goesOn(n *node, tok core.Token) {
	a := ch.accounts[tok.Run]
	if a == nil || int(tok.Step) >= len(a.model.steps) {
		return
	}
	s := &a.model.steps[tok.Step]
	if m := n.serviceOf(s); m != nil && s.live && s.attempt == tok.Attempt {
		m.running[tok] = true
	}
}

// start checks a start against the rates and the breaker.
func (m *serviceModel) start(ch *checker, tok core.Token, s serviceStart) {
	m.running[tok] = true
	if now := ch.u.clock(); s.at > now {
		// The clock went back, or an earlier process had its clock ahead: a run's instants never run backwards.
		s.at, s.told, s.moved = now, s.at, true
	}
	if latest := ch.u.latest(); m.shared && latest > ch.u.clock() {
		s.told, s.moved = max(s.told, latest), true // another partition may have told the process about that time
	}
	m.starts = append(m.starts, s)
	count := func(r policy.Rate, what string, counts func(serviceStart) bool) {
		if s.moved { // starts of before the clock went back look later than this one, however old they are
			return
		}
		n := 0
		for _, last := range m.starts { // others may have started later, and were stored before
			if last.at >= s.at && last.at < s.at.Add(max(r.Per, 1)) && !last.moved {
				n = max(n, m.startsWithin(last.at.Add(-r.Per), last.at, counts))
			}
		}
		if r.N > 0 && n > r.N {
			ch.u.violate(Limited, tok.Run, "attempt %s is the %dth %s of service %s in %s, its rate is %s",
				tokenText(tok), n, what, m.name, r.Per, r)
		}
	}
	count(m.limits.Rate, "start", func(serviceStart) bool { return true })
	ofKey := func(o serviceStart) bool { return o.key == s.key }
	count(m.limits.KeyRate, fmt.Sprintf("start with key %q", s.key), ofKey)
	if s.retry {
		count(m.limits.Retries, "retry", func(o serviceStart) bool { return o.retry })
	}
	if !m.open || m.unknown {
		return
	}
	if s.at < m.until && !s.moved {
		ch.u.violate(Limited, tok.Run, "attempt %s starts, the breaker of service %s is open until %s",
			tokenText(tok), m.name, offset(m.until))
	}
	aside := ch.u.bug.panicked[m.probe.Run] // such a run leaves its places
	if m.running[m.probe] && !m.mute(s.at) && !aside {
		ch.u.violate(Limited, tok.Run, "attempt %s starts beside the probe %s of service %s", tokenText(tok),
			tokenText(m.probe), m.name)
	}
	m.probe, m.probeAt = tok, s.at
}

// mute reports whether a probe that has not ended makes way for another one.
func (m *serviceModel) mute(at core.Time) bool {
	return at >= m.probeAt.Add(m.limits.Breaker.PauseAfter(math.MaxInt))
}

// startsWithin counts starts after an instant, up to another one.
func (m *serviceModel) startsWithin(after, until core.Time, counts func(serviceStart) bool) (n int) {
	for _, s := range m.starts {
		if !s.moved && s.at > after && s.at <= until && counts(s) {
			n++
		}
	}
	return n
}

// end takes the end of an attempt.
func (m *serviceModel) end(tok core.Token, f *policy.Failure, at core.Time) {
	delete(m.running, tok)
	rule := m.limits.Breaker
	failed := false
	if f != nil {
		switch f.Kind {
		case policy.KindError:
			failed = true
		case policy.KindFailed:
		case policy.KindTimeout:
			failed = f.Limit == policy.LimitStartToClose || f.Limit == policy.LimitHeartbeat ||
				f.Limit == policy.LimitInactivity
			if !failed {
				return // it may have begun just before the deadline
			}
		default:
			return
		}
	}
	pause := func() {
		m.until = at.Add(min(rule.Pause<<m.probes, cmp.Or(rule.MaxPause, 5*time.Minute)))
	}
	switch {
	case rule.Failures == 0 || m.open && m.probe != tok:
	case m.open && m.mute(at):
		m.unknown = true // another one may have its turn, and wait for a worker, which is not recorded
	case m.open && failed:
		m.probes++
		pause()
	case m.open:
		m.open, m.last, m.probe = false, nil, core.Token{}
	default:
		m.last = append(m.last, failed)
		of, bad := max(rule.Of, rule.Failures), 0
		for _, f := range m.last[max(len(m.last)-of, 0):] {
			if f {
				bad++
			}
		}
		if bad >= rule.Failures {
			m.open, m.last, m.probes, m.probe = true, nil, 0, core.Token{}
			pause()
		}
	}
}

// together checks how many attempts of a service a process executes, when it begins another one.
func (ch *checker) together(n *node, tok core.Token) {
	a := ch.accounts[tok.Run]
	if a == nil || int(tok.Step) >= len(a.model.steps) {
		return
	}
	m := n.serviceOf(&a.model.steps[tok.Step])
	if m == nil {
		return
	}
	all, ofKey := 0, 0
	key := a.state.Steps[tok.Step].ShareKey()
	n.process.eachTask(func(other core.Token, _ *workerTask) {
		if oa := ch.accounts[other.Run]; oa != nil && n.serviceOf(&oa.model.steps[other.Step]) == m {
			all++
			if oa.state.Steps[other.Step].ShareKey() == key {
				ofKey++
			}
		}
	})
	if most := m.limits.Concurrency; most > 0 && all > most {
		ch.u.violate(Limited, tok.Run, "attempt %s is the %dth at once of service %s", tokenText(tok), all, m.name)
	}
	if most := m.limits.PerKey; most > 0 && ofKey > most {
		ch.u.violate(Limited, tok.Run, "attempt %s is the %dth at once of service %s with key %q",
			tokenText(tok), ofKey, m.name, key)
	}
}

// freed reports whether something will come that may let go what a service holds: the end of an attempt, or an instant.
func (ch *checker) freed(n *node, s *stepModel) bool {
	m := n.serviceOf(s)
	now := ch.u.clock()
	working := false
	n.process.eachTask(func(tok core.Token, _ *workerTask) {
		a := ch.accounts[tok.Run]
		working = working || a != nil && n.serviceOf(&a.model.steps[tok.Step]) == m
	})
	if working {
		return true
	}
	longest := max(m.limits.Rate.Per, m.limits.KeyRate.Per, m.limits.Retries.Per)
	if n.process.countsRefused(longest, now) {
		return true
	}
	for _, start := range m.starts {
		if max(start.at, start.told).Add(longest) > now {
			return true
		}
	}
	return s.held.Until > now || (m.open && m.until > now)
}
