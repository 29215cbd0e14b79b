package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/trail"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

func (a *app) runShowCommand() *cobra.Command {
	var logs string
	var attempt int
	var all bool
	cmd := &cobra.Command{
		Use: "show RUN", Short: "Show a run: every step, every attempt, every deadline, and why it ended", Args: cobra.ExactArgs(1),
		Long:    "Shows a run as it is on disk, whether or not another process carries it. With --logs STEP, what the step's attempts printed.",
		Example: "  pawl run show @last\n  pawl run show order-42 --logs render --attempt 2",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.reading(cmd.Context(), func(ctx context.Context, h reader) error {
				id, err := findRun(ctx, h, args[0])
				if err != nil {
					return err
				}
				t, c, err := loadRun(ctx, h, id)
				if err != nil {
					return err
				}
				if logs != "" {
					return a.showLogs(t, logs, attempt)
				}
				return a.show(&live.Run{Trail: t, Steps: c.steps(), Words: wordsOf(ctx, h, t, c.bundle)}, all)
			})
		},
	}
	cmd.Flags().StringVar(&logs, "logs", "", "print what this step's attempts printed")
	cmd.Flags().IntVar(&attempt, "attempt", 0, "with --logs: of this attempt only")
	cmd.Flags().BoolVar(&all, "all", false, "every item of a forEach, however many there are")
	a.completeFor(cmd, 1)
	return cmd
}

// showing is a run as programs get it.
type showing struct {
	listed
	Input      json.RawMessage `json:"input,omitempty"`
	Output     json.RawMessage `json:"output,omitempty"`
	Execution  string          `json:"executionDeadline,omitempty"`
	RunLimit   string          `json:"runDeadline,omitempty"`
	StartAt    string          `json:"startAt,omitempty"`
	Cron       string          `json:"cron,omitempty"`
	Previous   string          `json:"previous,omitempty"`
	Next       string          `json:"next,omitempty"`
	Why        string          `json:"why,omitempty"`
	Failure    *policy.Failure `json:"failure,omitempty"`
	Dialect    *worded         `json:"dialect,omitempty"`
	Steps      []showingStep   `json:"steps"`
	Operations []showingOp     `json:"operations"`
}

type showingStep struct {
	Step            string           `json:"step"`
	Kind            string           `json:"kind"`
	Phase           string           `json:"phase"`
	Reason          string           `json:"reason,omitempty"`
	ScheduledAt     string           `json:"scheduledAt,omitempty"`
	EndedAt         string           `json:"endedAt,omitempty"`
	NextAt          string           `json:"nextAt,omitempty"`
	ScheduleToClose string           `json:"scheduleToCloseDeadline,omitempty"`
	Deadline        string           `json:"deadline,omitempty"`
	Binding         *showingDeadline `json:"binding,omitempty"`
	Why             string           `json:"why,omitempty"`
	Failure         *policy.Failure  `json:"failure,omitempty"`
	Output          json.RawMessage  `json:"output,omitempty"`
	Child           string           `json:"child,omitempty"`
	Dialect         *worded          `json:"dialect,omitempty"`
	Superseded      bool             `json:"superseded,omitempty"` // it is of the time before the run was retried
	Attempts        []showingAttempt `json:"attempts"`
}

// showingDeadline is the deadline that comes first.
type showingDeadline struct {
	Limit  string `json:"limit"`
	At     string `json:"at"`
	Origin string `json:"origin,omitempty"`
}

type showingAttempt struct {
	Attempt   int             `json:"attempt"`
	ReadyAt   string          `json:"readyAt,omitempty"`
	StartedAt string          `json:"startedAt,omitempty"`
	EndedAt   string          `json:"endedAt,omitempty"`
	Outcome   string          `json:"outcome,omitempty"`
	Limit     string          `json:"limit,omitempty"`
	Worker    string          `json:"worker,omitempty"`
	Child     string          `json:"child,omitempty"` // the run it started
	NextAt    string          `json:"nextAt,omitempty"`
	Abandoned bool            `json:"abandoned,omitempty"`
	Failure   *policy.Failure `json:"failure,omitempty"`
}

type showingOp struct {
	At        string        `json:"at"`
	Operation string        `json:"operation"`
	Step      string        `json:"step,omitempty"`
	Actor     string        `json:"actor,omitempty"`
	Reason    string        `json:"reason,omitempty"`
	Deadlines []showingMove `json:"deadlines,omitempty"` // what it set
}

type showingMove struct {
	Limit string `json:"limit"`
	At    string `json:"at,omitempty"` // without: it was taken away
}

func movesOf(moves []trail.Move) []showingMove {
	var out []showingMove
	for _, m := range moves {
		out = append(out, showingMove{m.Limit.String(), trail.Instant(m.At)})
	}
	return out
}

func (a *app) show(r *live.Run, all bool) error {
	if a.structured() {
		return a.print(showRun(r))
	}
	a.lines(live.Show(r, now(), a.textWidth(), all))
	if r.Run.Phase.Closed() {
		a.say("")
		a.lines(a.ending(r.Trail, r.Words))
	}
	return nil
}

func showRun(shown *live.Run) showing {
	t, r := shown.Trail, shown.Run
	out := showing{
		listed: listed{
			Run: r.ID.String(), Workflow: r.Workflow, WorkflowID: r.WorkflowID, Key: r.Key, Phase: r.Phase.String(),
			CreatedAt: trail.Instant(r.CreatedAt), EndedAt: trail.Instant(r.EndedAt),
			Deadline: trail.Instant(policy.Earliest(r.Execution.At, r.Deadline.At)), Parent: runText(r.Parent.Run),
		},
		Input: rawJSON(r.Input), Output: rawJSON(r.Output), Execution: trail.Instant(r.Execution.At), RunLimit: trail.Instant(r.Deadline.At),
		Previous: runText(r.Chain.Previous), Next: runText(r.Next), Why: t.RunWhy(), Failure: r.Failure, Dialect: wordedRun(shown.Words),
		Steps: []showingStep{}, Operations: []showingOp{},
	}
	if r.StartAt != 0 {
		out.StartAt = trail.Instant(r.StartAt)
	}
	if def := r.Attached(); def != nil {
		out.Cron = def.Timetable
	}
	if !r.Phase.Closed() {
		out.Wake = trail.Instant(r.Wake())
	}
	for i := range r.Steps {
		if s := &r.Steps[i]; !s.Dropped || shown.Superseded(s) {
			out.Steps = append(out.Steps, showStep(shown, s))
		}
	}
	for _, op := range t.Operations {
		out.Operations = append(out.Operations, showingOp{trail.Instant(op.At), op.Op.String(), op.Step, op.Actor, op.Reason, movesOf(op.Moves)})
	}
	return out
}

func showStep(t *live.Run, s *core.Step) showingStep {
	out := showingStep{
		Step: s.Key(), Kind: s.Spec.Kind.String(), Phase: s.Phase.String(), Reason: s.Reason.String(),
		ScheduledAt: trail.Instant(s.ScheduledAt), EndedAt: trail.Instant(s.EndedAt), NextAt: trail.Instant(s.NextAt),
		ScheduleToClose: trail.Instant(s.ScheduleToClose), Deadline: trail.Instant(s.Deadline), Failure: s.Failure,
		Output: rawJSON(s.Output), Child: runText(s.Child), Dialect: wordedStep(t.Words, s), Attempts: []showingAttempt{},
		Superseded: s.Dropped,
	}
	if s.Spec.Kind == core.KindTask {
		out.Kind = s.Spec.Type
	}
	if s.Phase.Closed() {
		out.Why = t.StepWhy(s)
	} else if b := t.Binding(s); b.At != 0 {
		out.Binding = &showingDeadline{b.Limit.String(), trail.Instant(b.At), b.Origin}
	}
	for _, at := range t.Attempts(s.ID) {
		one := showingAttempt{
			Attempt: at.Number, ReadyAt: trail.Instant(at.Ready), StartedAt: trail.Instant(at.Started), EndedAt: trail.Instant(at.Ended),
			Outcome: at.Outcome(), Worker: at.Worker, Child: runText(at.Child), NextAt: trail.Instant(at.NextAt), Abandoned: at.Abandoned, Failure: at.Failure,
		}
		if at.Failure != nil {
			one.Limit = at.Failure.Limit.String()
		}
		out.Attempts = append(out.Attempts, one)
	}
	return out
}

func runText(id core.RunID) string {
	if id == (core.RunID{}) {
		return ""
	}
	return id.String()
}

// rawJSON is a payload as it is; what is no JSON becomes a text.
func rawJSON(b []byte) json.RawMessage {
	if len(b) == 0 || (json.Valid(b) && utf8.Valid(b)) {
		return b
	}
	text, err := json.Marshal(string(b))
	if err != nil {
		return nil
	}
	return text
}

// showLogs prints what a step's attempts printed, as it was; on a terminal with its control characters made visible.
func (a *app) showLogs(t *trail.Trail, step string, attempt int) error {
	s, err := findStep(t, step)
	if err != nil {
		return err
	}
	p, err := a.where()
	if err != nil {
		return err
	}
	found := false
	for _, at := range t.Attempts(s.ID) {
		if attempt != 0 && at.Number != attempt {
			continue
		}
		path := worker.LogPath(p.logDir(), core.Token{Run: t.Run.ID, Step: s.ID, Attempt: at.Number}, s.Key())
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if attempt == 0 && len(t.Attempts(s.ID)) > 1 {
			fmt.Fprintf(a.Out, "==> attempt %d\n", at.Number)
		}
		err = a.copyLog(f)
		f.Close()
		if err != nil {
			return err
		}
		found = true
	}
	if !found {
		return fmt.Errorf("step %q of run %s has no log: only exec steps have one, from their first attempt on", step, live.Short(t.Run.ID))
	}
	return nil
}

func (a *app) copyLog(f io.Reader) error {
	if !isTerminal(a.Out) {
		_, err := io.Copy(a.Out, f)
		return err
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n"), "\n") {
		fmt.Fprintln(a.Out, screen.Visible(strings.ReplaceAll(line, "\t", "    ")))
	}
	return nil
}
