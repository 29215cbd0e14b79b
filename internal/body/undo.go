package body

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// Undo is what a body has registered to be undone. Branches add to it in an order that depends on chance, so each entry
// has the place in the code where it was added: what is undone, and in which order, depends on these places alone.
type Undo struct {
	live    *liveSession // the session of the body that uses it; nil: none yet
	added   []*undoEntry
	changed Signal // fired when something was added, or when a branch has reached Take
}

// undoEntry is one function to be called.
type undoEntry struct {
	key    string // unique in the body: the branch, the name and a number
	place  []int  // see Branch.next
	branch *Branch
	what   any
}

// next returns the place of a branch's next action: the place where the branch began, and a number within the branch.
// Whatever was done before a branch began has a smaller place than the branch's actions, and those have smaller places
// than later code.
func (b *Branch) next() []int {
	b.steps++
	return append(slices.Clone(b.path), b.steps)
}

// AddUndo notes something to be undone.
func (t *Thread) AddUndo(u *Undo, name string, what any) error {
	if err := t.enterUndo(u, Named("undo", name)); err != nil {
		return err
	}
	b := t.branch
	if b.undos == nil {
		b.undos = map[string]int{}
	}
	b.undos[name]++
	key := fmt.Sprintf("%s%s#%d", b.prefix, name, b.undos[name])
	u.added = append(u.added, &undoEntry{key, b.next(), b, what})
	t.live.session.fire(&u.changed)
	t.exit()
	return nil
}

// enterUndo locks the session for a call that is about what is to be undone.
func (t *Thread) enterUndo(u *Undo, what Call) error {
	if err := t.enter(what); err != nil {
		return err
	}
	if u.live == nil {
		u.live = t.live
	}
	if u.live != t.live {
		t.exit()
		return fmt.Errorf("pawl: %s: the compensations are those of another run: %w", what, ErrContextEnded)
	}
	return nil
}

// TakeUndo returns the entries to undo, the last first, and forgets them. Other branches that have added entries are
// told to end first, and it waits for them. What is taken is recorded: a body that is called again takes the same.
func (t *Thread) TakeUndo(u *Undo) ([]any, error) {
	what := Named("pawl.Compensations.Run")
	if err := t.enterUndo(u, what); err != nil {
		return nil, err
	}
	s, b := t.live.session, t.branch
	b.undoes = u // others that take do not wait for this one
	s.fire(&u.changed)
	key := b.Key("undo")
	var taken []*undoEntry
	t.waitForAll(what)
	if list := s.Marked(key); list != nil {
		taken = t.takeAgain(u, what, key, list)
	} else {
		t.waitForOthers(u, what, func() []*undoEntry { return u.added })
		taken = slices.Clone(u.added)
		slices.SortFunc(taken, func(x, y *undoEntry) int {
			return cmp.Or(slices.Compare(y.place, x.place), cmp.Compare(y.key, x.key))
		})
		b.joinCauses(taken)
		s.Mark(key, keysOf(taken), copied(b.causes))
	}
	u.added = slices.DeleteFunc(u.added, func(e *undoEntry) bool { return slices.Contains(taken, e) })
	b.undoes = nil
	t.exit()
	out := make([]any, 0, len(taken))
	for _, e := range taken {
		out = append(out, e.what)
	}
	return out, nil
}

// keysOf returns the recorded form of what is taken. The keys are texts, so it can always be encoded.
func keysOf(taken []*undoEntry) []byte {
	keys := make([]string, 0, len(taken))
	for _, e := range taken {
		keys = append(keys, e.key)
	}
	text, _ := json.Marshal(keys)
	return text
}

// waitForAll waits until all other branches wait: a branch that repeats recorded decisions may not have reached its
// earlier entries yet.
func (t *Thread) waitForAll(what Call) {
	s := t.live.session
	if s.running == 1 {
		return
	}
	alone := false
	t.wait(what, func() bool { alone = alone || s.running == 0; return alone }, &s.quiet)
}

// takeAgain takes the recorded entries. Branches may still be on their way to the place where they add them.
func (t *Thread) takeAgain(u *Undo, what Call, key string, list []byte) []*undoEntry {
	s := t.live.session
	var keys []string
	if err := json.Unmarshal(list, &keys); err != nil {
		s.changed(fmt.Sprintf("%s of %q", list, key), "a list of what is undone")
		t.leave()
	}
	missing := func() (first string) {
		for _, k := range keys {
			if u.entry(k) == nil {
				return k
			}
		}
		return ""
	}
	t.wait(what, func() bool { return missing() == "" || idles(s) }, &u.changed, &s.quiet)
	if k := missing(); k != "" {
		s.changed(fmt.Sprintf("the compensation %q", k), "none of that name")
		t.leave()
	}
	recorded := func() (all []*undoEntry) {
		for _, k := range keys {
			all = append(all, u.entry(k))
		}
		return all
	}
	t.waitForOthers(u, what, recorded)
	taken := recorded()
	t.branch.joinCauses(taken)
	return taken
}

func (u *Undo) entry(key string) *undoEntry {
	for _, e := range u.added {
		if e.key == key {
			return e
		}
	}
	return nil
}

// waitForOthers waits until other branches that have added one of the entries have ended. The branches around this one
// go on, and so do those that wait for the same.
func (t *Thread) waitForOthers(u *Undo, what Call, entries func() []*undoEntry) {
	s, own := t.live.session, t.branch
	for {
		var busy []*Branch
		for _, e := range entries() {
			if b := e.branch; b.state != branchEnded && b.undoes != u && !own.isWithin(b) {
				busy = append(busy, b)
			}
		}
		if len(busy) == 0 {
			return
		}
		signals := []*Signal{&u.changed}
		for _, b := range busy {
			if b.ownScope {
				s.CancelScope(b.scope)
			}
			signals = append(signals, &b.ended)
		}
		known := len(u.added)
		t.wait(what, func() bool {
			return len(u.added) != known || !slices.ContainsFunc(busy, func(b *Branch) bool {
				return b.state != branchEnded && b.undoes != u
			})
		}, signals...)
	}
}

// isWithin reports whether a branch is the other one, or was begun within it.
func (b *Branch) isWithin(outer *Branch) bool {
	return b == outer || len(b.path) > len(outer.path) && slices.Equal(b.path[:len(outer.path)], outer.path)
}

// joinCauses makes the next decision of a branch follow from what those did who added the entries.
func (b *Branch) joinCauses(entries []*undoEntry) {
	for _, e := range entries {
		if e.branch != b {
			b.causes = joined(b.causes, e.branch.causes)
		}
	}
}
