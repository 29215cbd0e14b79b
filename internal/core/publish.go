package core

// Published is what a run's body tells of its state to whoever looks at the run: the last value that it gave.
type Published struct {
	Value []byte // JSON
	At    Time

	// places says of each branch of the body, by the prefix of its keys, where it gave its last value.
	places map[string]Place
}

// Place is a point in a branch of a body: the Count-th value that the branch published after the step of that key. A
// body that is called again finds by it which values it has published before.
type Place struct {
	After string // empty: before the branch's first step
	Count int
}

// Places returns where each branch of the run's body has published its last value. The caller owns the map.
func (r *Run) Places() map[string]Place {
	if r.Published == nil || len(r.Published.places) == 0 {
		return nil
	}
	places := make(map[string]Place, len(r.Published.places))
	for branch, at := range r.Published.places {
		places[branch] = at
	}
	return places
}

func (r *Run) applyPublished(at Time, rec StatePublished) {
	if r.Published == nil {
		r.Published = &Published{}
	}
	p := r.Published
	p.Value, p.At = rec.Value, at
	if p.places == nil {
		p.places = map[string]Place{}
	}
	p.places[rec.Branch] = Place{After: rec.After, Count: rec.Count}
}

// forgetPlaces follows a step that is made again: what the body publishes after it is new.
func (r *Run) forgetPlaces() {
	if r.Published != nil {
		r.Published.places = nil
	}
}
