package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/timeline"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/policy"
)

// subject is a policy to explain: of a step, or put together on the command line.
type subject struct {
	Name     string
	Policy   policy.Policy
	RunLimit time.Duration // 0: none
}

// explained is what programs get.
type explained struct {
	Step     string             `json:"step,omitempty"`
	Policy   policy.Policy      `json:"policy"`
	Assumes  string             `json:"assumes"` // what the attempts do
	Attempts []explainedAttempt `json:"attempts"`
	Phase    string             `json:"phase"`
	Reason   string             `json:"reason,omitempty"`
	AtMs     int64              `json:"atMs"`
	Findings []policy.Finding   `json:"findings"`
}

type explainedAttempt struct {
	Attempt int    `json:"attempt"`
	AtMs    int64  `json:"atMs"`
	EndedMs *int64 `json:"endedMs,omitempty"`
	End     string `json:"end,omitempty"`
	Limit   string `json:"limit,omitempty"`
	Never   bool   `json:"never,omitempty"`
}

// scene is how the attempts of an explanation behave.
type scene struct {
	runs   string
	hang   bool
	random float64
	shown  int
}

type policyFlags struct{ retry, timeout string }

func (p *policyFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.retry, "retry", "", "a retry policy instead of a file's: 'exponential(5, 1s, max=30s)'")
	cmd.Flags().StringVar(&p.timeout, "timeout", "",
		"limits instead of a file's: startToClose=10s,scheduleToClose=5m, or 5m alone")
}

func (p *policyFlags) given() bool { return p.retry != "" || p.timeout != "" }

func (p *policyFlags) policy() (policy.Policy, error) {
	fields := map[string]any{}
	if p.retry != "" {
		fields["retry"] = p.retry
	}
	if p.timeout != "" {
		fields["timeout"] = p.timeout
		if strings.Contains(p.timeout, "=") {
			limits := map[string]any{}
			for part := range strings.SplitSeq(p.timeout, ",") {
				name, amount, ok := strings.Cut(part, "=")
				if !ok {
					return policy.Policy{}, fmt.Errorf("--timeout: %q is not written as limit=duration", part)
				}
				limits[strings.TrimSpace(name)] = strings.TrimSpace(amount)
			}
			fields["timeout"] = limits
		}
	}
	out, err := policy.DecodePolicy(fields)
	if err != nil {
		return out, fmt.Errorf("--%w", err)
	}
	return out, nil
}

func (a *app) policyExplainCommand() *cobra.Command {
	var given policyFlags
	var sc scene
	cmd := &cobra.Command{
		Use:   "explain FILE [STEP] | --retry POLICY [--timeout LIMITS]",
		Short: "Draw a policy's attempts, delays and deadlines on a time axis",
		Long: `Draws what a step's policy means when every attempt goes wrong: one row an attempt, dots where it backs
off, blocks where it runs, a line for each deadline, and a cross for an attempt that cannot start. Attempts hang
until a limit ends them where one does, and fail at once elsewhere; --fails-after and --hang choose. Jitter is drawn
at its longest; --random chooses.`,
		Example: "  pawl policy explain flow.yaml charge\n" +
			"  pawl policy explain --retry 'exponential(5, 1s)' --timeout startToClose=10s,scheduleToClose=30s",
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			subjects, err := a.subjects(&given, args)
			if err != nil {
				return err
			}
			if sc.random < 0 || sc.random > 1 {
				return usage("--random is a number from 0 to 1, not %v", sc.random)
			}
			if sc.shown < 1 {
				return usage("--attempts is at least 1")
			}
			var all []explained
			for i, s := range subjects {
				e, plot, err := sc.explain(s, cmd.Flags().Changed("hang"))
				if err != nil {
					return err
				}
				all = append(all, e)
				if !a.structured() {
					if i > 0 {
						a.say("")
					}
					a.explain(s, e, plot)
				}
			}
			if a.structured() {
				return a.print(all)
			}
			return nil
		},
	}
	given.add(cmd)
	cmd.Flags().StringVar(&sc.runs, "fails-after", "", "how long each attempt runs before it fails")
	cmd.Flags().BoolVar(&sc.hang, "hang", false, "attempts hang until a limit ends them (--hang=false: they fail)")
	cmd.Flags().Float64Var(&sc.random, "random", math.Nextafter(1, 0), "the number in [0,1) that every jitter draws")
	cmd.Flags().IntVar(&sc.shown, "attempts", 12, "how many attempts to draw at most")
	return cmd
}

// subjects are the policies a command line is about.
func (a *app) subjects(given *policyFlags, args []string) ([]subject, error) {
	if given.given() {
		if len(args) > 0 {
			return nil, usage("name a file or give --retry and --timeout, not both")
		}
		p, err := given.policy()
		return []subject{{Policy: p}}, asUsage(err)
	}
	if len(args) == 0 {
		return nil, usage("name a flow file, or give --retry 'exponential(5, 1s)' and --timeout startToClose=10s")
	}
	doc, def, err := a.compileFile(args[0])
	if err != nil {
		return nil, err
	}
	var out []subject
	var names []string
	for spec := range specs(def) {
		names = append(names, spec.Name)
		if len(args) < 2 || spec.Name == args[1] {
			out = append(out, subject{Name: spec.Name, Policy: spec.Policy, RunLimit: runLimit(doc)})
		}
	}
	if len(out) == 0 {
		return nil, usage("%s has no step %q; %s", args[0], strings.Join(args[1:], ""),
			nearestOr(strings.Join(args[1:], ""), names, "there are"))
	}
	return out, nil
}

// explain simulates the policy, and then without the deadlines that span attempts, to see what can never start.
func (sc scene) explain(s subject, hangGiven bool) (explained, timeline.Plot, error) {
	p := s.Policy
	attemptLimit := p.StartToClose != nil || p.Heartbeat != nil || p.Inactivity != nil
	act := core.Act{End: "error"}
	if sc.runs != "" {
		d, err := decode.Duration(sc.runs)
		if err != nil {
			return explained{}, timeline.Plot{}, usage("--fails-after: %w", err)
		}
		act.Run = d
	} else if (hangGiven && sc.hang) || (!hangGiven && attemptLimit) {
		act.End = "hang"
	}
	base := core.Scenario{
		Policy: p, Script: []core.Act{act}, Random: &sc.random, RunDeadline: s.RunLimit, MaxAttempts: sc.shown,
		Match: func(string, *policy.Failure, int) policy.Match { return policy.Match{Matched: true} },
	}
	real, err := core.Simulate(base)
	if err != nil {
		return explained{}, timeline.Plot{}, err
	}
	e := explained{
		Assumes: assumption(act), Step: s.Name, Policy: p, Phase: real.Phase.String(), Reason: real.Reason.String(),
		AtMs:     real.At.Milliseconds(),
		Findings: append([]policy.Finding{}, policy.Lint(&p, s.RunLimit)...), Attempts: []explainedAttempt{},
	}
	plot := timeline.Plot{Until: real.At}
	for _, at := range real.Attempts {
		e.add(&plot, at, false)
	}
	if n := len(real.Attempts); real.Reason == policy.ReasonNoTimeLeft ||
		real.Reason == policy.ReasonTimeoutNotRetryable {
		free := base
		free.Policy.ScheduleToClose, free.Policy.Deadline, free.RunDeadline = nil, nil, 0
		if ideal, err := core.Simulate(free); err == nil && !(act.End == "hang" && !attemptLimit) {
			for _, at := range ideal.Attempts[min(n, len(ideal.Attempts)):] {
				e.add(&plot, at, true)
			}
		}
	}
	plot.Marks = spanningMarks(p, s.RunLimit)
	return e, plot, nil
}

// assumption says what the attempts are assumed to do.
func assumption(act core.Act) string {
	switch {
	case act.End == "hang":
		return "if each attempt hangs until a limit ends it"
	case act.Run > 0:
		return "if each attempt fails after " + exact(act.Run)
	default:
		return "if each attempt fails at once"
	}
}

func (e *explained) add(plot *timeline.Plot, at core.SimulatedAttempt, never bool) {
	n := len(e.Attempts) + 1
	end := at.End
	if at.Limit != policy.LimitNone {
		end += ": " + at.Limit.String()
	}
	out := explainedAttempt{Attempt: n, AtMs: at.At.Milliseconds(), End: at.End, Limit: at.Limit.String(), Never: never}
	row := timeline.Row{Number: n, At: at.At, Started: at.Started, Ended: at.Ended, End: end, Never: never}
	if never {
		out.End, out.Limit, row.Ended = "", "", nil
	} else if at.Ended != nil {
		ms := at.Ended.Milliseconds()
		out.EndedMs = &ms
	}
	e.Attempts = append(e.Attempts, out)
	plot.Rows = append(plot.Rows, row)
}

// spanningMarks are the deadlines that span attempts. A deadline counts from the first attempt's start, which is at
// once here.
func spanningMarks(p policy.Policy, run time.Duration) []timeline.Mark {
	var marks []timeline.Mark
	if run > 0 {
		marks = append(marks, timeline.Mark{Name: "run", At: run})
	}
	for _, kind := range []policy.LimitKind{policy.LimitScheduleToClose, policy.LimitDeadline} {
		if l := p.Get(kind); l != nil && l.At == 0 {
			marks = append(marks, timeline.Mark{Name: kind.String(), At: l.After})
		}
	}
	return marks
}

func (a *app) explain(s subject, e explained, plot timeline.Plot) {
	title := "retry " + s.Policy.Retry.String()
	if s.Name != "" {
		title = s.Name + ": " + title
	}
	for _, kind := range policy.StepLimits {
		if l := s.Policy.Get(kind); l != nil {
			title += fmt.Sprintf(", %s %s", kind, limitText(l))
		}
	}
	a.say("%s", title)
	if len(e.Attempts) == 0 {
		a.say("never runs: %s", e.Phase)
		return
	}
	a.say("%s:", e.Assumes)
	a.lines(plot.Draw(a.width()))
	a.say("→ %s", conclusion(e))
	for _, f := range e.Findings {
		a.say("! %s: %s", strings.Join(f.Path, "."), f.Message)
	}
}

func limitText(l *policy.Limit) string {
	if l.At != 0 {
		return l.At.Std().Format(time.RFC3339)
	}
	return exact(l.After)
}

// conclusion says in a sentence how it ends.
func conclusion(e explained) string {
	at := milliseconds(e.AtMs)
	switch e.Phase {
	case "backing_off":
		return fmt.Sprintf("goes on like this; --attempts draws more than %d", len(e.Attempts))
	case "running", "scheduled":
		return "the attempt never ends: no limit stops it"
	}
	return fmt.Sprintf("%s at %s: %s", e.Phase, at, reasons[e.Reason])
}
