package api

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const (
	// mostUnfolded is how many items a forEach has that an answer never leaves out.
	mostUnfolded = 50
	stripParts   = 120 // parts of the span of a group
)

// Folded is how the items of a forEach stand that an answer leaves out.
type Folded struct {
	Phases map[StepPhase]int `json:"phases" doc:"Number of items in each phase."`
	From   Time              `json:"from" doc:"The instant at which the first part begins."`
	Each   Duration          `json:"each" doc:"The length of a part."`
	Ran    []int             `json:"ran" doc:"Attempts that ran in each part of the time, the oldest first."`
	Bad    []int             `json:"bad,omitempty" doc:"The same of those that ended badly."`
}

// ItemQuery asks for items of a forEach.
type ItemQuery struct {
	Of     string    // the key of the forEach
	Phase  StepPhase // empty: of all phases
	Worst  bool      // those that failed first, and those that run; else in their order
	Offset int
	Limit  int // 0: 100
}

// ItemPage is a page of the items of a forEach.
type ItemPage struct {
	Items []*Step `json:"items"`
	Total int     `json:"total" doc:"Number of items that the query selects."`
	Next  int     `json:"next,omitempty" doc:"The offset of the next page; absent: there is none."`
}

// The length of a page of items.
const (
	usualItems = 100
	MostItems  = 1000
)

// WithoutItems returns the run without the items of long lists. Their groups say how they stand. asOf is the instant up
// to which open attempts have run.
func (r *Run) WithoutItems(asOf Time) *Run {
	items := map[string][]*Step{}
	for _, s := range r.Steps {
		if s.Group != "" {
			items[s.Group] = append(items[s.Group], s)
		}
	}
	groups := map[string]bool{}
	for group, all := range items {
		if len(all) > mostUnfolded && slices.ContainsFunc(r.Steps, func(s *Step) bool { return s.Step == group }) {
			groups[group] = true
		}
	}
	if len(groups) == 0 {
		return r
	}
	out := *r
	out.Steps = nil
	for _, s := range r.Steps {
		switch {
		case groups[s.Group]:
		case groups[s.Step]:
			group := *s
			group.Folded = foldedOf(items[s.Step], asOf)
			out.Steps = append(out.Steps, &group)
		default:
			out.Steps = append(out.Steps, s)
		}
	}
	return &out
}

// foldedOf says how items stand, and when their attempts ran.
func foldedOf(items []*Step, asOf Time) *Folded {
	f := &Folded{Phases: map[StepPhase]int{}}
	var to Time
	for _, s := range items {
		f.Phases[s.Phase]++
		for i := range s.Attempts {
			if a := &s.Attempts[i]; a.StartedAt != 0 {
				if f.From == 0 || a.StartedAt < f.From {
					f.From = a.StartedAt
				}
				to = max(to, cmp.Or(a.EndedAt, asOf))
			}
		}
	}
	if f.From == 0 {
		return f
	}
	each := (to.Sub(f.From) / stripParts).Truncate(time.Millisecond) + time.Millisecond
	f.Each, f.Ran, f.Bad = Duration(each), make([]int, stripParts), make([]int, stripParts)
	part := func(at Time) int { return min(max(int(at.Sub(f.From)/each), 0), stripParts-1) }
	for _, s := range items {
		for i := range s.Attempts {
			a := &s.Attempts[i]
			if a.StartedAt == 0 {
				continue
			}
			for p := part(a.StartedAt); p <= part(cmp.Or(a.EndedAt, asOf)); p++ {
				f.Ran[p]++
				if a.Outcome != "" && a.Outcome != "succeeded" {
					f.Bad[p]++
				}
			}
		}
	}
	return f
}

// itemRanks has the phases in the order in which a person wants to see items.
var itemRanks = []StepPhase{
	StepFailed, StepTimedOut, StepBackingOff, StepRunning, StepScheduled, StepSuspended, StepCancelled, StepPending,
	StepSkipped, StepSucceeded,
}

// ItemsOf returns a page of the items of a forEach of the run.
func (r *Run) ItemsOf(q ItemQuery) (out ItemPage, err error) {
	invalid := func(format string, args ...any) (ItemPage, error) {
		return out, &Error{Code: CodeInvalid, Message: "items: " + fmt.Sprintf(format, args...)}
	}
	switch {
	case !slices.ContainsFunc(r.Steps, func(s *Step) bool { return s.Step == q.Of }):
		return out, &Error{Code: CodeNotFound, Message: fmt.Sprintf("run %s has no step %q", r.Run, q.Of)}
	case q.Phase != "" && !slices.Contains(itemRanks, q.Phase):
		return invalid("there is no phase %q of a step", q.Phase)
	case q.Offset < 0 || q.Limit < 0 || q.Limit > MostItems:
		return invalid("an offset is not negative, and a limit is 1 to %d", MostItems)
	}
	var all []*Step
	for _, s := range r.Steps {
		if s.Group == q.Of && (q.Phase == "" || s.Phase == q.Phase) {
			all = append(all, s)
		}
	}
	if q.Worst {
		rank := func(s *Step) int { return slices.Index(itemRanks, s.Phase) }
		slices.SortStableFunc(all, func(a, b *Step) int { return cmp.Compare(rank(a), rank(b)) })
	}
	from := min(q.Offset, len(all))
	to := min(from+cmp.Or(q.Limit, usualItems), len(all))
	out.Items, out.Total = slices.Clone(all[from:to]), len(all)
	if out.Items == nil {
		out.Items = []*Step{}
	}
	if to < len(all) {
		out.Next = to
	}
	return out, nil
}
