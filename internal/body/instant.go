package body

import "github.com/pawl-dev/pawl/internal/core"

// instant is the latest end that a branch has seen. An end that is not durable has no instant yet.
type instant struct {
	now  core.Time
	last *Step   // an end that is not in now; nil if there is none
	more []*Step // further ends that are not in now
}

// sees takes the end of a step in.
func (i *instant) sees(st *Step) {
	if st.refused {
		return // it never began
	}
	i.fold()
	switch {
	case st.confirmed:
		i.now = max(i.now, st.record.EndedAt)
	case i.last == nil:
		i.last = st
	case i.last != st:
		i.more = append(i.more, st)
	}
}

// joins adds the instants that another branch has seen.
func (i *instant) joins(other *instant) {
	i.now = max(i.now, other.now)
	if other.last != nil {
		i.sees(other.last)
	}
	for _, st := range other.more {
		i.sees(st)
	}
}

// fold adds the instants of ends that have one by now, and returns an end that has none, or nil if there is none.
func (i *instant) fold() (open *Step) {
	if i.last == nil {
		return nil
	}
	all := i.more
	if !i.last.confirmed {
		open = i.last
	} else {
		i.now = max(i.now, i.last.record.EndedAt)
	}
	i.more = i.more[:0]
	for _, st := range all {
		switch {
		case st.confirmed:
			i.now = max(i.now, st.record.EndedAt)
		case open == nil:
			open = st
		default:
			i.more = append(i.more, st)
		}
	}
	i.last = open
	return open
}
