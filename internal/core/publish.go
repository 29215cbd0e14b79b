package core

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
