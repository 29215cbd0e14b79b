package schedules

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/schedule"
)

// ScheduleChange holds the details of a change of a schedule, besides the verb.
type ScheduleChange struct {
	Firing api.Time       `json:"firing,omitzero" doc:"skip, unskip: the firing; default the next one."`
	From   api.Time       `json:"from,omitzero" doc:"backfill: the first firing that is made up for."`
	Before api.Time       `json:"before,omitzero" doc:"backfill: where that ends; default now."`
	AtOnce bool           `json:"atOnce,omitempty" doc:"backfill: the runs do not wait for one another."`
	Limit  int            `json:"limit,omitempty" doc:"backfill: refuse to make up for more firings; default 100."`
	DryRun bool           `json:"dryRun,omitempty" doc:"backfill: only count them."`
	Spec   *schedule.Spec `json:"schedule,omitempty" doc:"update: the new times and rules."`
	Actor  string         `json:"actor,omitempty"`
	Reason string         `json:"reason,omitempty"`
	// Own is what the run of a trigger has of its own: the input, which the caller has checked, labels and headers; and
	// OwnTimeout its limit. Nil and empty: those of the schedule.
	Own        *schedule.Target `json:"-"`
	OwnTimeout string           `json:"-"`
}

// ScheduleChanged answers a change.
type ScheduleChanged struct {
	WorkflowID string   `json:"workflowId,omitempty" doc:"trigger: that of the run."`
	Firing     api.Time `json:"firing,omitzero" doc:"skip, unskip: the firing."`
	Firings    int      `json:"firings,omitempty" doc:"backfill: how many the span has."`
	Schedule   Schedule `json:"schedule" doc:"The schedule as it is now."`
}

// defaultBackfill is how many firings a backfill makes up for by default.
const defaultBackfill = 100

// The verbs. OpUpdate, OpPause and the others of package schedule are verbs, too.
const (
	VerbRemove = "remove"
	VerbUpdate = schedule.OpUpdate
)

// Do changes a schedule. It is durable then. Errors: CodeNotFound, CodeInvalid.
func Do(
	ctx context.Context, s Service, name, verb string, c ScheduleChange, now time.Time,
) (out ScheduleChanged, err error) {
	state, _, err := stateOf(ctx, s, schedule.Prefix+name, name)
	if err != nil {
		return out, err
	}
	change := schedule.Change{Op: verb, Actor: c.Actor, Reason: c.Reason}
	switch verb {
	case schedule.OpPause, schedule.OpResume:
	case schedule.OpUpdate:
		err = updated(&change, &c)
	case schedule.OpTrigger:
		out.WorkflowID = schedule.TriggerID(name, now)
		change.Run, change.Target = out.WorkflowID, c.Own
		if c.OwnTimeout != "" {
			spec := state.Spec
			spec.Timeout, change.Spec = c.OwnTimeout, &spec
		}
	case schedule.OpSkip, schedule.OpUnskip:
		out.Firing, err = firingOf(state, &change, &c, now)
	case schedule.OpBackfill:
		out.Firings, err = span(state, &change, &c, now)
	case VerbRemove:
		if out.Schedule, err = Get(ctx, s, name, now); err == nil { // as it was
			err = remove(ctx, s, name, &c)
		}
		return out, err
	default:
		err = fmt.Errorf("a schedule knows no %q", verb)
	}
	if err != nil {
		return out, invalid(err)
	}
	if !c.DryRun {
		if err := send(ctx, s, name, &change); err != nil {
			return out, err
		}
	}
	out.Schedule, err = Get(ctx, s, name, now)
	return out, err
}

// updated fills in the change to other times.
func updated(change *schedule.Change, c *ScheduleChange) error {
	if c.Spec == nil {
		return fmt.Errorf("an update says the new schedule")
	}
	change.Spec = c.Spec
	_, err := c.Spec.Parse(time.Time{})
	return err
}

// firingOf fills in which firing to come is taken out, or in again.
func firingOf(s *schedule.State, change *schedule.Change, c *ScheduleChange, now time.Time) (api.Time, error) {
	table, err := s.Table()
	if err != nil {
		return 0, err
	}
	firing := c.Firing.Std()
	switch {
	case change.Op == schedule.OpUnskip:
		if firing, err = skipped(s, c.Firing); err != nil {
			return 0, err
		}
	case len(s.Skips) >= schedule.MostSkips:
		return 0, fmt.Errorf("%d firings of schedule %q are taken out, and no more can be", len(s.Skips), s.Name)
	case c.Firing == 0:
		coming := s.Coming(table, now, 1)
		if len(coming) == 0 {
			return 0, fmt.Errorf("schedule %q never fires again", s.Name)
		}
		firing = coming[0]
	}
	if next := table.Next(firing.Add(-1)); !next.Equal(firing) {
		return 0, fmt.Errorf("schedule %q does not fire at %s; it fires next at %s", s.Name,
			firing.UTC().Format(time.RFC3339), next.UTC().Format(time.RFC3339))
	}
	if !firing.After(s.Due) {
		return 0, fmt.Errorf("the firing at %s has passed", firing.UTC().Format(time.RFC3339))
	}
	change.Firing = firing
	return at(firing), nil
}

// skipped returns the firing to restore: the given one, or otherwise the first one that was taken out.
func skipped(s *schedule.State, firing api.Time) (time.Time, error) {
	switch {
	case len(s.Skips) == 0:
		return time.Time{}, fmt.Errorf("no firing of schedule %q is taken out: there is nothing to take in again",
			s.Name)
	case firing == 0:
		return slices.MinFunc(s.Skips, time.Time.Compare), nil
	case !slices.ContainsFunc(s.Skips, firing.Std().Equal):
		return time.Time{}, fmt.Errorf("the firing at %s is not taken out: there is nothing to take in again", firing)
	}
	return firing.Std(), nil
}

// span fills in the span of a backfill, and counts its firings.
func span(s *schedule.State, change *schedule.Change, c *ScheduleChange, now time.Time) (int, error) {
	table, err := s.Table()
	if err != nil {
		return 0, err
	}
	if c.Before == 0 {
		c.Before = api.At(now)
	}
	if c.Limit == 0 {
		c.Limit = defaultBackfill
	}
	change.From, change.Before, change.AtOnce = c.From.Std(), c.Before.Std(), c.AtOnce
	switch {
	case c.From == 0:
		return 0, fmt.Errorf("a backfill needs a span: say where it begins")
	case change.From.After(now):
		return 0, fmt.Errorf("the span begins in the future: what fires then is not missed yet")
	case c.Before <= c.From:
		return 0, fmt.Errorf("the span is empty: its end is not after its begin")
	case change.Before.After(now):
		return 0, fmt.Errorf("the span ends in the future: what fires then is not missed yet")
	case len(s.Backfills) >= schedule.MostBackfills:
		return 0, fmt.Errorf("%d backfills of schedule %q are under way: wait for one to end", len(s.Backfills), s.Name)
	case c.Limit < 1 || c.Limit > schedule.MostBackfilled:
		return 0, fmt.Errorf("the limit of a backfill is from 1 to %d", schedule.MostBackfilled)
	}
	n := table.CountFirings(change.From, change.Before, c.Limit+1)
	if n > c.Limit {
		return 0, fmt.Errorf("there are more than %d firings in the span; choose a shorter one, or a higher limit",
			c.Limit)
	}
	return n, nil
}

// remove ends a schedule. Its runs go on.
func remove(ctx context.Context, s Service, name string, c *ScheduleChange) error {
	reason := c.Reason
	if reason == "" {
		reason = "the schedule was removed"
	}
	return asNotFound(name, s.Operate(ctx, schedule.Prefix+name, api.Operation{
		Operation: api.OpTerminate, Actor: c.Actor, Reason: reason,
	}))
}

// send sends a change to a schedule.
func send(ctx context.Context, s Service, name string, change *schedule.Change) error {
	payload, err := json.Marshal(change)
	if err != nil {
		return invalid(err)
	}
	return asNotFound(name, s.Send(ctx, schedule.Prefix+name, api.SendRequest{
		Name: schedule.Event, Payload: payload, Actor: change.Actor, Reason: change.Reason,
	}))
}

// asNotFound replaces the error for a schedule that has ended meanwhile by one that there is none.
func asNotFound(name string, err error) error {
	switch api.CodeOf(err) {
	case api.CodeNotFound, api.CodeRunClosed:
		return notFound(name)
	default:
		return err
	}
}

// Ensured is the result of Ensure.
type Ensured struct {
	Made    bool     // the schedule is new
	Changed []string // parts of an old schedule: its times, its workflow, its input, its labels
}

// Ensure makes a schedule. If there is one of that name, it is changed if it differs, from its next firing on.
func Ensure(ctx context.Context, s Service, want *schedule.State, actor, reason string) (out Ensured, err error) {
	if err := want.Check(); err != nil {
		return out, invalid(fmt.Errorf("schedule %q: %w", want.Name, err))
	}
	if _, err := s.Definition(ctx, string(want.Definition)); err == nil {
		want.Source = "" // it is stored already
	}
	for {
		is, _, err := stateOf(ctx, s, schedule.Prefix+want.Name, want.Name)
		switch {
		case err == nil:
			return change(ctx, s, is, want, actor, reason)
		case api.CodeOf(err) != api.CodeNotFound:
			return out, err
		}
		input, err := want.Encode()
		if err != nil {
			return out, invalid(err)
		}
		_, err = s.Start(ctx, api.StartRequest{
			Definition: api.Definition{
				ID: schedule.DefinitionID(), Kind: schedule.Kind, Name: schedule.Workflow, Source: schedule.Source,
			},
			Input: input, WorkflowID: schedule.Prefix + want.Name, Actor: actor, Reason: reason,
		})
		if api.CodeOf(err) != api.CodeConflict {
			return Ensured{Made: err == nil}, err
		}
	}
}

// change changes a schedule that differs from the wanted one.
func change(
	ctx context.Context, s Service, is, want *schedule.State, actor, reason string,
) (out Ensured, err error) {
	if want.File == "" {
		want.File = is.File
	}
	change := schedule.Change{Op: schedule.OpUpdate, Actor: actor, Reason: reason}
	if is.Spec != want.Spec {
		change.Spec = &want.Spec
		out.Changed = append(out.Changed, "times")
	}
	out.Changed = append(out.Changed, differences(&is.Target, &want.Target)...)
	if n := len(out.Changed); n > 1 || n == 1 && change.Spec == nil {
		change.Target = &want.Target
	}
	if len(out.Changed) == 0 {
		return out, nil
	}
	return out, send(ctx, s, is.Name, &change)
}

// differences names the differences of two targets.
func differences(a, b *schedule.Target) (all []string) {
	if a.Workflow != b.Workflow || a.Definition != b.Definition {
		all = append(all, "workflow")
	}
	if !sameJSON(a.Input, b.Input) {
		all = append(all, "input")
	}
	if a.File != b.File {
		all = append(all, "file")
	}
	if !maps.Equal(a.Labels, b.Labels) || !maps.Equal(a.Headers, b.Headers) {
		all = append(all, "labels")
	}
	return all
}

// sameJSON compares two texts without their spaces.
func sameJSON(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	errX, errY := json.Compact(&x, a), json.Compact(&y, b)
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	return errX == nil && errY == nil && bytes.Equal(x.Bytes(), y.Bytes())
}
