package schedules

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/schedule"
)

// Week is what the schedules start in seven days, hour by hour.
type Week struct {
	From      api.Time `json:"from"`
	To        api.Time `json:"to"`
	Schedules []InWeek `json:"schedules" doc:"Open schedules, at most 100."`
}

// InWeek is what one schedule starts in a week.
type InWeek struct {
	Schedule string `json:"schedule"`
	Hours    []Hour `json:"hours" doc:"Hours in which something fires, the first one first."`
	More     bool   `json:"more,omitempty" doc:"Set if it fires so often that some firings are left out."`
}

// Hour counts the firings within an hour by what became of them.
type Hour struct {
	At        api.Time `json:"at" doc:"The hour's beginning."`
	Succeeded int      `json:"succeeded,omitempty"`
	Failed    int      `json:"failed,omitempty"`
	Running   int      `json:"running,omitempty"`
	Missed    int      `json:"missed,omitempty"`
	Coming    int      `json:"coming,omitempty"`
	Run       string   `json:"run,omitempty" doc:"The run, where there is one alone."`
	Why       string   `json:"why,omitempty" doc:"The reason for which firings were missed."`
}

const (
	week       = 7 * 24 * time.Hour
	mostInWeek = 100  // schedules of a week
	mostFired  = 1000 // runs, and firings to come, of one
)

// WeekFrom returns what the schedules start in the seven days from an instant on.
func WeekFrom(ctx context.Context, s Reader, from, now time.Time) (Week, error) {
	out := Week{From: at(from), To: at(from.Add(week)), Schedules: []InWeek{}}
	all, err := List(ctx, s, now)
	if err != nil {
		return out, err
	}
	for _, one := range all[:min(len(all), mostInWeek)] {
		in, err := inWeek(ctx, s, &one, from, now)
		if api.CodeOf(err) == api.CodeNotFound {
			continue // it has ended meanwhile
		}
		if err != nil {
			return out, err
		}
		out.Schedules = append(out.Schedules, in)
	}
	return out, nil
}

// hours counts firings by hour.
type hours struct {
	from, to time.Time
	by       map[time.Time]*Hour
}

// at returns the hour of a firing; nil: it is not in the week.
func (h *hours) at(firing time.Time) *Hour {
	if firing.Before(h.from) || !firing.Before(h.to) {
		return nil
	}
	begin := h.from.Add(firing.Sub(h.from).Truncate(time.Hour))
	if h.by[begin] == nil {
		h.by[begin] = &Hour{At: api.At(begin)}
	}
	return h.by[begin]
}

func inWeek(ctx context.Context, s Reader, one *Schedule, from, now time.Time) (InWeek, error) {
	out := InWeek{Schedule: one.Name}
	state, _, err := stateOf(ctx, s, schedule.Prefix+one.Name, one.Name)
	if err != nil {
		return out, err
	}
	h := &hours{from: from, to: from.Add(week), by: map[time.Time]*Hour{}}
	page, err := s.Runs(ctx, api.Query{
		Labels: map[string]string{schedule.Label: one.Name}, CreatedFrom: at(from), Limit: mostFired,
	})
	if err != nil {
		return out, err
	}
	out.More = page.Next != ""
	for i := range page.Runs {
		h.ran(&page.Runs[i])
	}
	if table, err := state.Table(); err == nil { // else this version does not read its times
		out.More = h.missed(table, one.Recent) || out.More
		if one.Paused == nil {
			out.More = h.coming(state, table, now) || out.More
		}
	}
	out.Hours = []Hour{}
	for _, begin := range slices.SortedFunc(maps.Keys(h.by), time.Time.Compare) {
		out.Hours = append(out.Hours, *h.by[begin])
	}
	return out, nil
}

// ran counts the run of a firing, whose instant its workflow id ends with.
func (h *hours) ran(r *api.RunSummary) {
	firing := r.CreatedAt.Std()
	if i := strings.LastIndexByte(r.WorkflowID, '@'); i >= 0 {
		if t, err := time.Parse(time.RFC3339, r.WorkflowID[i+1:]); err == nil {
			firing = t
		}
	}
	hour := h.at(firing)
	if hour == nil {
		return
	}
	if hour.Run = r.Run; hour.Succeeded+hour.Failed+hour.Running > 0 {
		hour.Run = ""
	}
	switch {
	case !r.Phase.Closed():
		hour.Running++
	case r.Phase == api.RunSucceeded || r.Phase == api.RunContinued:
		hour.Succeeded++
	default:
		hour.Failed++
	}
}

// missed counts the firings that started no run. It reports whether there are too many.
func (h *hours) missed(table *schedule.Table, all []schedule.Missed) (more bool) {
	for _, m := range all {
		firing := m.From
		for n := 0; n < m.Count && !firing.IsZero() && !firing.After(m.To) && firing.Before(h.to); n++ {
			if n == mostFired {
				return true
			}
			if hour := h.at(firing); hour != nil {
				hour.Missed++
				hour.Why = m.Reason
			}
			firing = table.Next(firing)
		}
	}
	return false
}

// coming counts the firings to come, as far as the week goes. It reports whether there are too many.
func (h *hours) coming(state *schedule.State, table *schedule.Table, now time.Time) (more bool) {
	first := state.Coming(table, now, 1)
	if len(first) == 0 {
		return false
	}
	firing := first[0]
	for range mostFired {
		if firing.IsZero() || !firing.Before(h.to) || !state.Until.IsZero() && !firing.Before(state.Until) {
			return false
		}
		if hour := h.at(firing); hour != nil && !slices.ContainsFunc(state.Skips, firing.Equal) {
			hour.Coming++
		}
		firing = table.Next(firing)
	}
	return true
}
