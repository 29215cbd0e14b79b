// Package scheduled gives the flows of a server their schedules: those with a cron, whether they are files of its
// folder or were applied. A file that changes changes its schedule from the next firing on. A schedule is paused when
// its file is removed, and resumed when the file comes back.
package scheduled

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/kind/flow"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/internal/schedules"
	"github.com/pawl-dev/pawl/internal/service"
)

// File is a flow of a folder.
type File struct {
	Name       string // the file
	Definition api.Definition
	Problem    string // why it cannot be started; empty if it can
}

// Config specifies what a keeper works with.
type Config struct {
	Service api.Service
	// Read returns the flow that a definition is.
	Read func(d api.Definition) (*flow.Flow, error)
	// Files returns the flows of the folder as they are now.
	Files func(ctx context.Context) []File
	Now   func() time.Time
	// Tell is called for changes of schedules.
	Tell func(text string)
	// Every is how often the folder is looked at. Default: a second.
	Every time.Duration
}

// Keeper keeps the schedules of a folder's flows in line with the files.
type Keeper struct {
	cfg    Config
	told   map[string]string // the last text about a file
	stop   context.CancelFunc
	ended  chan struct{}
	looked string // the folder's files at the last look
}

// actor is the actor of changes of schedules because of files.
const actor = "folder"

// Keep looks at the folder now, and again whenever it has changed, until Close.
func Keep(ctx context.Context, cfg Config) *Keeper {
	if cfg.Every <= 0 {
		cfg.Every = time.Second
	}
	k := &Keeper{cfg: cfg, told: map[string]string{}, ended: make(chan struct{})}
	ctx, k.stop = context.WithCancel(context.WithoutCancel(ctx))
	go k.run(ctx)
	return k
}

// Close stops looking at the folder.
func (k *Keeper) Close() {
	k.stop()
	<-k.ended
}

func (k *Keeper) run(ctx context.Context) {
	defer close(k.ended)
	tick := time.NewTicker(k.cfg.Every)
	defer tick.Stop()
	k.look(ctx)
	for {
		select {
		case <-tick.C:
			k.look(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// look puts what the folder has into effect, if that has changed. What fails is tried again with the next look.
func (k *Keeper) look(ctx context.Context) {
	files := k.cfg.Files(ctx)
	now := fingerprint(files)
	if now == k.looked || ctx.Err() != nil {
		return
	}
	whole := true
	var kept []string
	for _, f := range files {
		if f.Problem != "" {
			kept = append(kept, f.Name) // the schedule goes on as it was
			continue
		}
		if name, err := k.ensure(ctx, f); err != nil {
			whole = false
			k.tellOnce(f.Name, fmt.Sprintf("the schedule of %s: %v", f.Name, err))
		} else if name != "" {
			kept = append(kept, f.Name)
		}
	}
	if err := k.pauseOthers(ctx, files, kept); err != nil {
		whole = false
		k.tellOnce("", fmt.Sprintf("the schedules of the folder: %v", err))
	}
	if whole {
		k.looked = now
	}
}

// fingerprint returns a hash of the files and their contents.
func fingerprint(files []File) string {
	var b strings.Builder
	for _, f := range files {
		fmt.Fprintf(&b, "%s %s %s\n", f.Name, f.Definition.ID, f.Problem)
	}
	return b.String() + "."
}

// tellOnce reports something that may happen repeatedly.
func (k *Keeper) tellOnce(about, text string) {
	if k.told[about] != text {
		k.told[about] = text
		k.cfg.Tell(text)
	}
}

// ensure makes or changes the schedule of a file, and returns its name; empty: the flow has no cron.
func (k *Keeper) ensure(ctx context.Context, f File) (string, error) {
	state, err := stateOf(k.cfg.Read, f.Definition)
	if err != nil || state == nil {
		return "", err
	}
	state.File = f.Name
	ensured, err := schedules.Ensure(ctx, k.cfg.Service, state, actor, "as "+f.Name+" says")
	if err != nil {
		return "", err
	}
	s, err := schedules.Get(ctx, k.cfg.Service, state.Name, k.cfg.Now())
	if err != nil {
		return "", err
	}
	if s.Paused != nil && s.Paused.Actor == actor { // the file has come back
		out, err := schedules.Do(ctx, k.cfg.Service, s.Name, schedule.OpResume,
			schedules.ScheduleChange{Actor: actor, Reason: f.Name + " is there again"}, k.cfg.Now())
		if err != nil {
			return "", err
		}
		s = out.Schedule
		k.cfg.Tell(fmt.Sprintf("schedule %s goes on: %s is there again; next: %s", s.Name, f.Name, next(&s)))
	}
	k.tellOnce(f.Name, Told(&s, ensured))
	return s.Name, nil
}

// Told describes what happened to a schedule.
func Told(s *schedules.Schedule, e schedules.Ensured) string {
	text := fmt.Sprintf("schedule %s (%s)", s.Name, strings.TrimSpace(s.Spec.Cron+" "+s.Spec.Zone))
	switch {
	case e.Made:
		text += " is new"
	case len(e.Changed) > 0:
		text += " has changed (" + strings.Join(e.Changed, ", ") + "), which counts from its next firing on"
	}
	return text + "; next: " + next(s)
}

// next describes when a schedule fires next.
func next(s *schedules.Schedule) string {
	switch {
	case s.Paused != nil:
		return "paused, " + s.Paused.Reason
	case s.Next == 0:
		return "never"
	}
	zone, err := time.LoadLocation(s.Spec.Zone)
	if err != nil {
		zone = time.UTC
	}
	return s.Next.Std().In(zone).Format("2006-01-02 15:04:05 MST")
}

// pauseOthers pauses the schedules of files that no longer exist, or have no cron any longer.
func (k *Keeper) pauseOthers(ctx context.Context, files []File, kept []string) error {
	all, err := schedules.List(ctx, k.cfg.Service, k.cfg.Now())
	if err != nil {
		return err
	}
	for i := range all {
		s := &all[i]
		if s.File == "" || s.Paused != nil || slices.Contains(kept, s.File) {
			continue
		}
		reason := "its file " + s.File + " is gone"
		if slices.ContainsFunc(files, func(f File) bool { return f.Name == s.File }) {
			reason = s.File + " no longer has a cron"
		}
		_, err := schedules.Do(ctx, k.cfg.Service, s.Name, schedule.OpPause,
			schedules.ScheduleChange{Actor: actor, Reason: reason}, k.cfg.Now())
		if err != nil {
			return err
		}
		k.cfg.Tell(fmt.Sprintf("schedule %s is paused: %s", s.Name, reason))
		delete(k.told, s.File)
	}
	return nil
}

// stateOf returns the schedule that a flow has; nil: the flow has no cron.
func stateOf(read func(api.Definition) (*flow.Flow, error), d api.Definition) (*schedule.State, error) {
	f, err := read(d)
	if err != nil || f.Document.Cron == nil {
		return nil, err
	}
	start, err := f.Document.Start(nil)
	if err != nil {
		return nil, fmt.Errorf("flow %q has a cron and no input to begin with: %w", d.Name, err)
	}
	return &schedule.State{
		Name: d.Name, Spec: f.Document.Cron.Spec(),
		Target: schedule.Target{
			Workflow: d.Name, Kind: d.Kind, Definition: schedule.ID(d.ID), Source: d.Source, Input: start.Input,
		},
	}, nil
}

// Applied gives the flows that are applied to a catalog their schedules.
type Applied struct {
	api.Catalog
	Service api.Service
	Read    func(d api.Definition) (*flow.Flow, error)
	Now     func() time.Time
}

func (a Applied) Apply(ctx context.Context, r api.ApplyRequest) (api.Flow, error) {
	f, err := a.Catalog.Apply(ctx, r)
	if err != nil {
		return f, err
	}
	state, err := stateOf(a.Read, r.Definition)
	if err != nil || state == nil {
		return f, err
	}
	ensured, err := schedules.Ensure(ctx, a.Service, state, r.Actor, "as the flow that was applied says")
	if err != nil {
		return f, err
	}
	s, err := schedules.Get(ctx, a.Service, state.Name, a.Now())
	f.Schedule = Told(&s, ensured)
	return f, err
}

// Reader returns how flows are read, each once.
func Reader(flows *flow.Flows) func(d api.Definition) (*flow.Flow, error) {
	return func(d api.Definition) (*flow.Flow, error) {
		stored, err := service.Definition(d)
		if err != nil {
			return nil, err
		}
		return flows.Get(stored)
	}
}
