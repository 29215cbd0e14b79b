package core

import (
	"cmp"
	"slices"
)

// Published is the last value that a run's body has published for the readers of the run.
type Published struct {
	Value []byte // JSON
	At    Time

	// points records for each branch of the body, by the prefix of its keys, where it gave its last value.
	points map[string]Point
}

// Point is a point in a branch of a body: the Count-th value that the branch published after the step of that key. With
// it, a body that is called again finds which values it has published before.
type Point struct {
	After string // empty: before the branch's first step
	Count int
}

// Points returns where each branch of the run's body has published its last value. The caller owns the map.
func (r *Run) Points() map[string]Point {
	if r.Published == nil || len(r.Published.points) == 0 {
		return nil
	}
	points := make(map[string]Point, len(r.Published.points))
	for branch, at := range r.Published.points {
		points[branch] = at
	}
	return points
}

func (r *Run) applyPublished(at Time, rec StatePublished) {
	if r.Published == nil {
		r.Published = &Published{}
	}
	p := r.Published
	p.Value, p.At = rec.Value, at
	if p.points == nil {
		p.points = map[string]Point{}
	}
	p.points[rec.Branch] = Point{After: rec.After, Count: rec.Count}
}

// forgetPoints removes the points after a step that is made again, because the body publishes new values after it.
func (r *Run) forgetPoints() {
	if r.Published != nil {
		r.Published.points = nil
	}
}

// A body runs its branches one at a time: a branch goes on until it waits, then the body takes in the next end of a
// step, and the branch that waited for it goes on. So the order of the ends fixes what the body does, and a body that
// is called again takes them in by their ranks.
//
// The ranks are given in the order in which ends are recorded. That may differ from what the body saw: it takes in the
// end of an attempt in its own process before that is recorded, and something else, such as a timer, may be recorded
// in between. The body tells what it saw with its decisions, and where the ranks say something else they are put right
// in the same commit.

// Seen is what a body has seen of the ends of its steps. The zero value tells nothing.
type Seen struct {
	Ends uint32   // the rank of the last end that it has seen
	Last StepID   // the step of that end, if it is one that the body has not told of before
	More []StepID // those before Last that it has not told of, in order
	Told bool     // Last is set
}

// order records the order in which the body has seen ends, if their ranks are others.
func order(m *machine, seen Seen) {
	if !seen.Told || ranked(m.r, seen.Last, seen.Ends) && allRanked(m.r, seen) {
		return
	}
	first := seen.Ends - min(seen.Ends, uint32(len(seen.More)+1)) // ends up to this rank are in their order
	var later []StepID
	for i := range m.r.Steps {
		if s := &m.r.Steps[i]; s.Rank > first {
			later = append(later, s.ID)
		}
	}
	slices.SortFunc(later, func(a, b StepID) int { return cmp.Compare(m.r.Steps[a].Rank, m.r.Steps[b].Rank) })
	saw := append(slices.Clone(seen.More), seen.Last)
	saw = slices.DeleteFunc(saw, func(id StepID) bool { return !slices.Contains(later, id) })
	for _, id := range later {
		if !slices.Contains(saw, id) {
			saw = append(saw, id)
		}
	}
	if !slices.Equal(saw, later) {
		m.emit(EndsOrdered{Steps: saw})
	}
}

// ranked reports whether the end of a step has a rank.
func ranked(r *Run, id StepID, rank uint32) bool {
	return int(id) < len(r.Steps) && r.Steps[id].Rank == rank
}

func allRanked(r *Run, seen Seen) bool {
	first := seen.Ends - uint32(len(seen.More))
	for i, id := range seen.More {
		if !ranked(r, id, first+uint32(i)) {
			return false
		}
	}
	return true
}

// applyOrdered gives the ranks that some steps have to the same steps in their order.
func applyOrdered(r *Run, rec EndsOrdered) {
	ranks := make([]uint32, len(rec.Steps))
	for i, id := range rec.Steps {
		ranks[i] = r.Steps[id].Rank
	}
	slices.Sort(ranks)
	for i, id := range rec.Steps {
		r.Steps[id].Rank = ranks[i]
	}
}
