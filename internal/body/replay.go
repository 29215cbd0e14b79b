package body

import (
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl/internal/core"
)

// A body that is called again first repeats its recorded decisions: those of each branch in their order. Until all
// branches have reached all of them, the body's new decisions are held back. For if a decision is left that no branch
// reaches, the code has changed, and a new decision may be an old one with another name: the charge of a branch that is
// called differently now. When all branches wait, it is known.

// holds reports whether new decisions are held back.
func (s *Session) holds() bool { return s.unread > 0 && !s.released }

// next returns the branch's next recorded decision, or nil if it has reached all.
func (s *Session) next(b *Branch) *Step {
	if !s.Replays(b) {
		return nil
	}
	return s.recorded[b.prefix][b.cursor]
}

// follow notes that the branch has reached its next recorded decision. After the last of all of them, decisions are no
// longer held back.
func (s *Session) follow(b *Branch) {
	st := s.recorded[b.prefix][b.cursor]
	st.asked = true
	b.moveOn(st.key)
	b.cursor++
	s.unread--
	switch {
	case s.unread > 0:
	case s.closing != nil:
		s.closeRun()
	case len(s.commands) > 0 && !s.armed[TimerFlush]:
		s.set(TimerFlush, AnswerTime)
	}
}

// allRead reports whether the body may go on now that all its branches wait. If none of them has reached a recorded
// decision, the code has changed, and the session is stuck. But if an operator has restarted a step, the body waits for
// its end a second time, and only then reaches the decisions that followed the first one.
func (s *Session) allRead() bool {
	if s.unread == 0 {
		return true
	}
	for _, st := range s.steps {
		if st.record.Restarted && st.asked && !st.closed {
			s.released = true
			return true
		}
	}
	s.changed(Describe(s.firstUnread().record.Spec), s.askedInstead())
	return false
}

// askedInstead names what the body has asked for that is not recorded.
func (s *Session) askedInstead() string {
	for _, cmd := range s.commands {
		switch cmd := cmd.(type) {
		case core.Schedule:
			return Describe(cmd.Spec)
		case core.Mark:
			if cmd.Spec.Type == TypeBranch {
				return Describe(cmd.Spec)
			}
		default:
		}
	}
	if s.closing != nil {
		return "the end of the body"
	}
	return "nothing more"
}

// firstUnread returns the first recorded decision that no branch has reached.
func (s *Session) firstUnread() *Step {
	var first *Step
	for _, list := range s.recorded {
		i := slices.IndexFunc(list, func(st *Step) bool { return !st.asked })
		if i >= 0 && (first == nil || list[i].record.ID < first.record.ID) {
			first = list[i]
		}
	}
	return first
}

// BeginBranch begins a branch beside its parent. That is a decision of the parent's, and is recorded as one. It
// returns nil if something else is recorded; the session is stuck then.
func (s *Session) BeginBranch(parent *Branch, key string) *Branch {
	next, known := s.next(parent), s.steps[key]
	switch {
	case next != nil && next == known && isBranch(known):
		s.follow(parent)
	case next != nil || known != nil:
		s.changed(Describe(s.expected(next, known).record.Spec), branchText(key))
		return nil
	default:
		s.note(TypeBranch, key, core.Mark{Causes: copied(parent.causes)})
		parent.moveOn(key)
	}
	return s.Spawn(parent, key)
}

// expected returns the recorded decision at this place, if the body asks for something that is recorded elsewhere.
func (s *Session) expected(next, known *Step) *Step {
	if next != nil {
		return next
	}
	return known
}

func isBranch(st *Step) bool { return st.record.Spec.Type == TypeBranch }

func branchText(key string) string { return "branch " + strconv.Quote(key) }

// items are the branches that one pawl.Map begins, one for each item. How many begin at once is decided in rounds:
// the first round begins as many as may run at once, and the end of a branch is the occasion for another one. Each
// round is recorded with how many it began.
type items struct {
	key     string
	count   int
	atOnce  int
	begun   int
	ended   int
	failed  bool        // one of them has
	first   int         // how many the first round began, which may have been more than begin at once now
	causes  core.Causes // the causes of the next decision of those that have ended
	seen    instant     // the latest end that those have seen
	changed Signal
}

// item returns the key of an item's branch.
func (g *items) item(i int) string { return g.key + "[" + strconv.Itoa(i) + "]" }

// room returns how many more may begin now.
func (g *items) room() int {
	if g.failed {
		return 0
	}
	return max(min(g.count, g.ended+max(g.atOnce, g.first))-g.begun, 0)
}

// round decides how many items begin now, if any. ok is false if another decision is recorded; the session is stuck
// then.
func (s *Session) round(parent *Branch, g *items) (n int, ok bool) {
	if g.begun == g.count {
		return 0, true
	}
	key, next := g.item(g.begun), s.next(parent)
	switch known := s.steps[key]; {
	case next != nil && next == known && isBranch(known):
		if g.begun > 0 && g.room() == 0 {
			return 0, true // it began when another one had ended
		}
		n, _ = strconv.Atoi(string(known.record.Output))
		if n < 1 || n > g.count-g.begun {
			s.changed(branchText(g.item(g.begun+max(n, 1)-1)), strconv.Itoa(g.count)+" items for "+branchText(g.key))
			return 0, false
		}
		s.follow(parent)
		g.first = max(g.first, n)
		return n, true
	case known != nil:
		s.changed(Describe(s.expected(next, known).record.Spec), branchText(key))
		return 0, false
	case next != nil: // the body went on: no more began
		return 0, true
	}
	if n = g.room(); n > 0 {
		begun := strconv.AppendInt(nil, int64(n), 10)
		s.note(TypeBranch, key, core.Mark{Output: begun, Causes: copied(parent.causes)})
		parent.moveOn(key)
	}
	return n, true
}

// missing checks the items that have not begun although none has failed: the body had gone on without them, so there
// were fewer items then. It reports whether there are any; the session is stuck then.
func (s *Session) missing(parent *Branch, g *items) bool {
	if g.begun == g.count || g.failed {
		return false
	}
	s.changed(Describe(s.expected(s.next(parent), s.steps[g.item(0)]).record.Spec), branchText(g.item(g.begun)))
	return true
}
