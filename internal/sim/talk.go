package sim

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// This file is the simulation's knowledge of bodies that publish their state and answer updates.

// talkGenerator gives a program values to publish and updates to handle. It uses its own random numbers.
type talkGenerator struct{ programGenerator }

func newTalkGenerator(n, count int) *talkGenerator {
	return &talkGenerator{programGenerator{random: newRandom(uint64(n), 0x7a1c), parent: n%3 == 0, count: count}}
}

func (g *talkGenerator) amend(p *program) {
	p.main = g.change(p.main)
	p.undo = g.change(p.undo)
}

func (g *talkGenerator) change(actions []action) []action {
	var out []action
	for _, act := range actions {
		act.then = g.change(act.then)
		for i := range act.parts {
			act.parts[i] = g.change(act.parts[i])
		}
		for g.chance(0.25) {
			out = append(out, g.publish())
		}
		out = append(out, act)
		if g.chance(0.08) {
			out = append(out, g.update())
		}
	}
	if len(out) > 0 && g.chance(0.2) {
		out = append(out, g.publish())
	}
	return out
}

func (g *talkGenerator) publish() action {
	g.count++
	return action{kind: doPublish, name: fmt.Sprint("s", g.count)}
}

// updates are the names of the updates that programs handle.
var updates = []string{"change", "stop"}

func (g *talkGenerator) update() action {
	g.count++
	act := action{kind: doUpdate, name: fmt.Sprint("s", g.count), onFailure: failureHandling(g.IntN(3))}
	act.spec = core.StepSpec{Def: -1, Kind: core.KindWait, Update: pick(g.random, updates)}
	if g.chance(0.6) {
		act.spec.Policy.Wait = &policy.Limit{After: g.span(time.Second, 30*time.Minute).Truncate(time.Millisecond)}
	}
	handler := g.actions(0)
	if g.chance(0.5) {
		handler = append(handler, g.publish())
	}
	act.parts = [][]action{handler}
	return act
}

// valueOf returns what a branch publishes. No other action publishes under the name.
func (act *action) valueOf(seen uint32) string { return fmt.Sprintf(`"%s %d"`, act.name, seen) }

// refusesUpdate reports whether bodies refuse an update with that input.
func refusesUpdate(payload []byte) bool {
	h := fnv.New32a()
	_, _ = h.Write(payload)
	return h.Sum32()%4 == 0
}

// answerOf returns how a program answers an update when its handler has ended.
func answerOf(at progress, seen uint32) (output []byte, f *policy.Failure) {
	if at == fails {
		return nil, &policy.Failure{Kind: policy.KindFailed, Type: "handler", Message: fmt.Sprint(seen)}
	}
	return fmt.Appendf(nil, `{"seen":%d}`, seen), nil
}

func (r *branchRunner) publish(act *action) progress {
	must(0, r.Publish([]byte(act.valueOf(r.seen))))
	return goesOn
}

func (r *branchRunner) update(act *action) progress {
	result := r.ask(act)
	record := must(r.TakeUpdate(result, func(payload []byte) *policy.Failure {
		if refusesUpdate(payload) {
			return &policy.Failure{Kind: policy.KindFailed, Type: "refused"}
		}
		return nil
	}))
	if at := r.outcome(act, result); record.Phase != core.StepSucceeded {
		return at
	}
	from := r.from
	output, f := answerOf(r.do(act.parts[0]), r.seen)
	r.from = from // the sender gets the failure of the handler, and the branch goes on
	must(0, r.AnswerUpdate(result, output, f))
	return goesOn
}

// talk is the part of a program's walk about published state and updates.
type talk struct {
	values  map[string]bool   // values that the run may have published by now
	due     []string          // values that must be recorded, since a later decision of their branch is
	answers map[string]string // the answers by the key of the wait that took the update
}

func (w *walk) publish(br *branchWalk, act *action) progress {
	value := act.valueOf(br.seen)
	w.talk.values[value] = true
	br.value = value
	return goesOn
}

// decidedAfter notes that a decision of the branch is recorded. The last value that the branch published before it must
// be there, too.
func (w *walk) decidedAfter(br *branchWalk) {
	if br.value != "" {
		w.talk.due = append(w.talk.due, br.value)
	}
	br.value = ""
}

func (w *walk) update(br *branchWalk, act *action) progress {
	k := w.ask(br, act)
	if k == nil {
		return waits
	}
	if at := w.outcome(br, act, k); k.phase != core.StepSucceeded {
		return at
	}
	from := br.from
	at := w.do(br, act.parts[0])
	br.from = from
	if at == waits {
		return waits
	}
	key := k.spec.Name
	spec := &core.StepSpec{Name: br.prefix + "answer[" + key[len(br.prefix):] + "]", Def: -1, Type: body.TypeAnswer}
	if known, recorded := w.follow(br, spec); recorded && known == nil {
		return waits
	} else if !recorded {
		br.value = ""
		w.decided = append(w.decided, core.Mark{Spec: spec})
	}
	w.talk.answers[key] = answerText(answerOf(at, br.seen))
	return goesOn
}

func answerText(output []byte, f *policy.Failure) string {
	if f != nil {
		return "failure " + f.Message
	}
	return string(output)
}

// updateModel is an update that a body has accepted.
type updateModel struct {
	step     core.StepID
	answered bool
	entry    int // the number of the entry that answered it
	answer   string
}

// talkModel is a run's recorded state and updates.
type talkModel struct {
	state    string
	recorded map[string]bool // all values
	fresh    map[string]bool // those recorded since an operator last restarted something: they come once
	updates  map[string]*updateModel
	carried  map[string]*updateModel // the answers of the run before that this run does not know yet
}

func newTalkModel() talkModel {
	return talkModel{
		recorded: map[string]bool{}, fresh: map[string]bool{}, updates: map[string]*updateModel{},
		carried: map[string]*updateModel{},
	}
}

// applyTalk takes a record, after its entry was applied to the run's state. It reports whether it was about talk.
func (m *bodyModel) applyTalk(a *account, rec core.Record) bool {
	switch rec := rec.(type) {
	case core.RunCreated:
		if before := m.u.checker.accounts[rec.Chain.Previous]; before != nil && before.body != nil {
			for key, up := range before.body.talk.updates {
				m.talk.carried[key] = up
			}
		}
	case core.StatePublished:
		value := string(rec.Value)
		if m.talk.fresh[value] {
			m.u.violate(Talk, a.id, "the state %s is recorded twice", value)
		}
		m.talk.state, m.talk.recorded[value], m.talk.fresh[value] = value, true, true
		return true
	case core.UpdateAccepted:
		m.accept(a, rec)
		return true
	case core.UpdateAnswered:
		m.answer(a, rec)
		return true
	case core.RunReopened:
		clear(m.talk.fresh)
	case core.StepReset:
		if rec.Restart {
			clear(m.talk.fresh)
		}
	case core.RunEnded:
		for key, up := range m.talk.updates {
			if !up.answered {
				m.u.violate(Talk, a.id, "the run has ended, and update %s was accepted and not answered", key)
			}
		}
	default:
	}
	return false
}

func (m *bodyModel) accept(a *account, rec core.UpdateAccepted) {
	key := rec.Name + " " + rec.ID
	s := &a.state.Steps[rec.Step]
	switch {
	case m.talk.updates[key] != nil || m.talk.carried[key] != nil:
		m.u.violate(Talk, a.id, "update %s is accepted twice in its chain", key)
	case s.Spec.Update != rec.Name || s.Phase != core.StepSucceeded:
		m.u.violate(Talk, a.id, "update %s is taken by step %s, which is %s", key, s.Key(), s.Phase)
	case refusesUpdate(s.Output):
		m.u.violate(Talk, a.id, "update %s is accepted, and the body refuses it", key)
	case string(s.Output) != m.u.talkers.sent[key]:
		m.u.violate(Talk, a.id, "update %s is accepted with %s, sent was %s", key, s.Output, m.u.talkers.sent[key])
	}
	m.talk.updates[key] = &updateModel{step: rec.Step}
}

func (m *bodyModel) answer(a *account, rec core.UpdateAnswered) {
	key, answer := rec.Name+" "+rec.ID, answerText(rec.Output, rec.Failure)
	if rec.Carried {
		before := m.talk.carried[key]
		if before == nil || before.answer != answer {
			m.u.violate(Talk, a.id, "the run inherits the answer %s to update %s, and the run before had %v",
				answer, key, before)
		}
		delete(m.talk.carried, key)
		m.talk.updates[key] = &updateModel{step: core.NoStep, answered: true, answer: answer}
		return
	}
	switch up := m.talk.updates[key]; {
	case up == nil:
		m.u.violate(Talk, a.id, "update %s is answered, and nobody has accepted it", key)
	case up.answered:
		m.u.violate(Talk, a.id, "update %s is answered twice", key)
	default:
		up.answered, up.entry, up.answer = true, len(a.entries), answer
	}
}

// checkTalk compares an entry with the program.
func (m *bodyModel) checkTalk(a *account, e core.Entry, w *walk) {
	if len(m.talk.carried) > 0 {
		m.u.violate(Talk, a.id, "the run does not know %d answers of the run before", len(m.talk.carried))
	}
	if p := a.state.Published; p != nil && string(p.Value) != m.talk.state {
		m.u.violate(Talk, a.id, "the state is %s, recorded last was %s", p.Value, m.talk.state)
	}
	for _, value := range w.talk.due {
		if !m.talk.recorded[value] {
			m.u.violate(Talk, a.id, "the body published %s before a decision that is recorded, and it is not", value)
		}
	}
	for _, rec := range e.Records {
		switch rec := rec.(type) {
		case core.StatePublished:
			if !w.talk.values[string(rec.Value)] {
				m.u.violate(Talk, a.id, "the state %s is recorded, which the body has not published", rec.Value)
			}
		case core.StepOmitted:
			if rec.Spec.Type == body.TypeAnswer {
				m.checkAnswered(a, e, w, rec.Spec.Name)
			}
		case core.UpdateAnswered:
			atEnd := rec.Failure != nil && rec.Failure.Kind == policy.KindCancelled && a.state.Phase.Closed()
			if !rec.Carried && !atEnd && !answersInEntry(e) {
				m.u.violate(Talk, a.id, "update %s is answered by nobody", rec.Name)
			}
		default:
		}
	}
}

// checkAnswered checks that the update of a wait has the answer that the body gives it, where the body does.
func (m *bodyModel) checkAnswered(a *account, e core.Entry, w *walk, mark string) {
	prefix := branchOf(mark)
	wait, _ := strings.CutSuffix(strings.TrimPrefix(mark[len(prefix):], "answer["), "]")
	for key, up := range m.talk.updates {
		if up.step == core.NoStep || a.state.Steps[up.step].Dropped || a.state.Steps[up.step].Key() != prefix+wait {
			continue
		}
		if up.answered && up.entry != len(a.entries) {
			continue // the run's end answered it; an operator has opened the run again since
		}
		if want := w.talk.answers[prefix+wait]; !up.answered || up.answer != want {
			m.u.violate(Talk, a.id, "update %s is answered with %q, the body answers %q", key, up.answer, want)
		}
	}
}

// answersInEntry reports whether the body answers an update in an entry.
func answersInEntry(e core.Entry) bool {
	return slices.ContainsFunc(e.Records, func(rec core.Record) bool {
		mark, ok := rec.(core.StepOmitted)
		return ok && mark.Spec.Type == body.TypeAnswer
	})
}

// talkers send updates to runs and ask until they have an answer.
type talkers struct {
	random
	u     *universe
	count int
	sent  map[string]string // the input of each update, by its name and id
	told  map[string]string // the answer that a sender got

	waiting []*sender // those that the process they talk to knows
}

func newTalkers(u *universe) *talkers {
	return &talkers{
		random: newRandom(u.seed, 0x7a1c), u: u, sent: map[string]string{}, told: map[string]string{},
	}
}

func (t *talkers) plan() {
	length := t.u.end.Sub(epoch)
	for range t.IntN(4 * t.u.opt.Runs) {
		t.u.agenda.add(epoch.Add(t.between(0, length)), "an update comes", t.sendSome)
	}
}

// sendSome sends an update to a run, usually one that it waits for.
func (t *talkers) sendSome() {
	a := t.u.clients.someRun()
	if a == nil || a.body == nil {
		return
	}
	name := pick(t.random, updates)
	for i := range a.model.steps {
		if s := &a.model.steps[i]; !s.closed && s.spec.Update != "" && t.chance(0.8) {
			name = s.spec.Update
		}
	}
	t.count++
	t.send(a.id, body.Update{Name: name, ID: fmt.Sprint("u", t.count), Payload: fmt.Appendf(nil, `"#%d"`, t.count)})
}

// nudge sends an update that bodies accept to a run that waits for one.
func (t *talkers) nudge(run core.RunID, name string) {
	t.count++
	for refusesUpdate(fmt.Appendf(nil, `"#%d"`, t.count)) {
		t.count++
	}
	t.send(run, body.Update{Name: name, ID: fmt.Sprint("u", t.count), Payload: fmt.Appendf(nil, `"#%d"`, t.count)})
}

func (t *talkers) send(run core.RunID, up body.Update) {
	t.sent[up.Name+" "+up.ID] = string(up.Payload)
	s := &sender{talkers: t, run: run, update: up, until: t.u.now.Add(t.span(time.Second, 3*time.Hour))}
	s.look()
}

// sender is a caller who waits for an answer. When the process that he talks to dies, he asks again.
type sender struct {
	*talkers
	run    core.RunID
	update body.Update
	until  core.Time // then he gives up
	asked  *body.Asked
	host   *host
	over   bool // he has an answer, or gets none
}

// look looks at the run, as the engine's client does, and comes again if there is no answer yet.
func (s *sender) look() {
	u := s.u
	s.lookNow()
	if u.now >= s.until {
		s.leave()
		s.over = true
	}
	if !s.over {
		u.after(s.span(time.Millisecond, 10*time.Minute), "a sender looks for his answer", s.look)
	}
}

// lookNow looks at the run, if its process serves requests.
func (s *sender) lookNow() {
	n := s.u.partitionOf(s.run).node
	if s.host != n.host {
		s.forget() // the process is gone, and with it its knowledge of the update
	}
	if !s.over && n.up() && s.ended(n) {
		s.leave()
		s.over = true
	}
}

// tell makes the senders of a run's updates look again, if the process asks them to.
func (t *talkers) tell(run core.RunID) {
	for _, s := range t.waiting {
		if s.run != run {
			continue
		}
		select {
		case <-s.asked.Again():
			t.u.after(0, "a sender is told to look", s.lookNow)
		default:
		}
	}
}

// leave tells the process that the sender no longer waits for it.
func (s *sender) leave() {
	if s.asked != nil {
		s.asked.Leave()
	}
	s.forget()
}

func (s *sender) forget() {
	s.asked = nil
	s.waiting = slices.DeleteFunc(s.waiting, func(other *sender) bool { return other == s })
}

// ended reports whether the sender has an answer, or gets none.
func (s *sender) ended(n *node) bool {
	a, key := s.u.checker.accounts[s.run], s.update.Name+" "+s.update.ID
	if s.asked != nil && s.asked.Refused() != nil {
		if !refusesUpdate(s.update.Payload) {
			s.u.violate(Talk, s.run, "update %s was refused, and the body accepts it", key)
		}
		return true
	}
	known := a.state.FindUpdate(s.update.Name, s.update.ID)
	switch {
	case known != nil && known.Answered:
		answer := answerText(known.Output, known.Failure)
		if told := s.told[key]; told != "" && told != answer {
			s.u.violate(Talk, s.run, "update %s was answered with %s, and now with %s", key, told, answer)
		}
		again := s.told[key] == ""
		s.told[key] = answer
		if again && s.chance(0.3) { // the answer was lost
			run, up := s.run, s.update
			s.u.after(s.span(time.Second, time.Hour), "an update comes again", func() { s.send(run, up) })
		}
		return true
	case a.state.Phase.Closed() && a.state.Next != (core.RunID{}) && s.u.checker.accounts[a.state.Next] != nil:
		s.leave()
		s.run = a.state.Next
		return false
	case a.state.Phase.Closed() && a.state.Next == (core.RunID{}):
		return true
	}
	if known == nil && a.state.PausedAt != 0 {
		s.leave() // a paused run takes no update: he asks again later
		return false
	}
	if s.asked == nil {
		s.asked, s.host = n.host.real.Ask(s.run, s.update), n.host
		s.waiting = append(s.waiting, s)
	}
	if known == nil {
		s.asked.Offer()
	}
	return false
}

// nudgeUpdates sends updates to a run that waits for them.
func (t *talkers) nudgeUpdates(a *account) {
	for i := range a.model.steps {
		if s := &a.model.steps[i]; !s.closed && slices.Contains(updates, s.spec.Update) {
			t.nudge(a.id, s.spec.Update)
		}
	}
}
