package lease

import (
	"time"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
)

// room is how much room a holder has for attempts of a type. The keeper's lock guards its fields.
type room struct {
	used  int
	waits []core.Token        // attempts that found no free slot, in the order in which they came
	known map[core.Token]bool // the same
	again *time.Timer         // wakes more of them; nil: the next free slot does
}

func newRoom() room { return room{known: map[core.Token]bool{}} }

// claim is a slot of a holder that an attempt has.
type claim struct {
	holder *holder
	room   *room
}

// roomOf returns the room for attempts of a type.
func (h *holder) roomOf(taskType string) *room {
	if taskType == body.TypeHook {
		return &h.hooks
	}
	return &h.steps
}

// place returns the holder at which an attempt can begin: where the run's body is, and for a hook any holder that has
// it, if possible with a free slot; nil if there is none.
func (k *Keeper) place(run core.RunID, workflow, taskType string) *holder {
	if l := k.leases[run]; l != nil {
		return l.holder
	}
	best := k.choose(workflow)
	if taskType != body.TypeHook || best == nil || best.hooks.used < best.slots {
		return best
	}
	for _, h := range k.holders {
		if !h.leaving && h.serves[workflow] && h.hooks.used < h.slots {
			return h
		}
	}
	return best
}

func (k *Keeper) Claim(tok core.Token, workflow, taskType string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.place(tok.Run, workflow, taskType)
	if h == nil {
		return true // no process serves it any longer, which Dispatch reports
	}
	r := h.roomOf(taskType)
	if r.used >= h.slots {
		if !r.known[tok] {
			r.known[tok] = true
			r.waits = append(r.waits, tok)
		}
		return false
	}
	r.used++
	k.claims[tok] = claim{h, r}
	return true
}

func (k *Keeper) Unclaim(tok core.Token) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unclaim(tok)
}

func (k *Keeper) unclaim(tok core.Token) {
	if c, ok := k.claims[tok]; ok {
		delete(k.claims, tok)
		k.free(c)
	}
}

// free gives a slot back, and wakes attempts that wait for it.
func (k *Keeper) free(c claim) {
	c.room.used--
	k.wake(c)
}

// takeSlot gives the slot that an attempt has claimed to its task. If the run's body is elsewhere by now, the task goes
// there: once it may have more tasks than slots.
func (k *Keeper) takeSlot(tok core.Token, h *holder, taskType string) claim {
	c, claimed := k.claims[tok]
	delete(k.claims, tok)
	if claimed && c.holder == h {
		return c
	}
	if claimed {
		k.free(c)
	}
	c = claim{h, h.roomOf(taskType)}
	c.room.used++
	return c
}

const (
	wokenMore  = 8
	wokenAgain = 50 * time.Millisecond
)

// wake wakes some attempts that wait for a free slot. Some of them may no longer wait, so it wakes more than there are
// slots, and looks again a little later: waking all of a thousand at each end of an attempt would be too many.
func (k *Keeper) wake(c claim) {
	h, r := c.holder, c.room
	free := h.slots - r.used
	if free <= 0 || k.drained || k.holders[h.id] != h {
		return
	}
	n := min(len(r.waits), free+wokenMore)
	for _, tok := range r.waits[:n] {
		delete(r.known, tok)
		k.engine.Begin(tok.Run, tok.Step)
	}
	r.waits = r.waits[n:]
	if len(r.waits) > 0 && r.again == nil {
		r.again = time.AfterFunc(wokenAgain, func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			r.again = nil
			k.wake(c)
		})
	}
}
