package core

import (
	"slices"

	"github.com/pawl-dev/pawl/policy"
)

// Update is a request from outside that the run's body has accepted and answers once. Before that only the body has it,
// and may refuse it.
type Update struct {
	Name string
	ID   string // chosen by the sender: with the name it identifies a repetition
	Step StepID // the wait that took it; NoStep: one of an earlier run of the chain

	Answered bool
	Output   []byte          // JSON
	Failure  *policy.Failure // the answer is an error
}

const (
	// updatesKept and updateBytes bound the answers that a chain remembers: the latest ones. A repeated update counts
	// as a new one after that many others.
	updatesKept = 1000
	updateBytes = 1 << 20
)

// FindUpdate returns the record of an update, nil if there is none.
func (r *Run) FindUpdate(name, id string) *Update {
	for i := len(r.Updates) - 1; i >= 0; i-- { // usually it is one of the last
		if u := &r.Updates[i]; u.ID == id && u.Name == name {
			return u
		}
	}
	return nil
}

// acceptUpdate makes an open wait take an update, as the body has decided. If the wait has ended meanwhile, or the
// update was taken before, nothing happens, and the body learns of that.
func (m *machine) acceptUpdate(cmd AcceptUpdate) {
	s, known := m.r.Lookup(cmd.Key)
	if !known || s.Phase.Closed() || s.Spec.Update != cmd.Name || m.r.FindUpdate(cmd.Name, cmd.ID) != nil {
		return
	}
	m.emit(UpdateAccepted{Name: cmd.Name, ID: cmd.ID, Step: s.ID})
	m.emit(StepEnded{Step: s.ID, Phase: StepSucceeded, Output: cmd.Payload})
}

// answerUpdate answers an update once, and marks where the body did so.
func (m *machine) answerUpdate(cmd AnswerUpdate) {
	m.command(Mark{Spec: cmd.Spec, Causes: cmd.Causes})
	if u := m.r.FindUpdate(cmd.Name, cmd.ID); u != nil && !u.Answered {
		m.emit(UpdateAnswered{Name: cmd.Name, ID: cmd.ID, Output: cmd.Output, Failure: cmd.Failure})
	}
}

// answerOpenUpdates answers what the body has accepted and not answered when its run ends.
func (m *machine) answerOpenUpdates() {
	for _, u := range m.r.Updates {
		if !u.Answered {
			f := cancelled("the run ended before it had answered the update")
			m.emit(UpdateAnswered{Name: u.Name, ID: u.ID, Failure: f})
		}
	}
}

// inheritUpdates gives a run the answers of the earlier runs in its chain.
func (m *machine) inheritUpdates(updates []Update) {
	for _, u := range updates {
		m.emit(UpdateAnswered{Name: u.Name, ID: u.ID, Output: u.Output, Failure: u.Failure, Carried: true})
	}
}

func (r *Run) applyAccepted(rec UpdateAccepted) {
	r.Updates = append(r.Updates, Update{Name: rec.Name, ID: rec.ID, Step: rec.Step})
}

func (r *Run) applyAnswered(rec UpdateAnswered) {
	u := r.FindUpdate(rec.Name, rec.ID)
	if u == nil {
		r.Updates = append(r.Updates, Update{Name: rec.Name, ID: rec.ID, Step: NoStep})
		u = &r.Updates[len(r.Updates)-1]
	}
	if u.Answered {
		r.answers.count, r.answers.bytes = r.answers.count-1, r.answers.bytes-len(u.Output)
	}
	u.Answered, u.Output, u.Failure = true, rec.Output, rec.Failure
	r.answers.count, r.answers.bytes = r.answers.count+1, r.answers.bytes+len(u.Output)
	r.forgetUpdates()
}

// answers counts the answers that a run remembers, and their bytes.
type answers struct{ count, bytes int }

// forgetUpdates forgets the oldest answers where there are too many. The last one stays, however large it is. What
// others hold of the slice does not change.
func (r *Run) forgetUpdates() {
	for r.answers.count > updatesKept || r.answers.bytes > updateBytes && r.answers.count > 1 {
		i := slices.IndexFunc(r.Updates, func(u Update) bool { return u.Answered })
		r.answers.count, r.answers.bytes = r.answers.count-1, r.answers.bytes-len(r.Updates[i].Output)
		if i == 0 {
			r.Updates = r.Updates[1:]
		} else {
			r.Updates = append(r.Updates[:i:i], r.Updates[i+1:]...)
		}
	}
}

// TakenBy returns the update that a wait has taken, nil if none has or it is forgotten.
func (r *Run) TakenBy(step StepID) *Update {
	for i := range r.Updates {
		if r.Updates[i].Step == step {
			return &r.Updates[i]
		}
	}
	return nil
}
