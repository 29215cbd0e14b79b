package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/timeline"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/cases"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/policy"
)

// subject is a policy to explain: of a step, or put together on the command line.
type subject struct {
	Name     string
	Policy   policy.Policy
	RunLimit time.Duration // 0: none
}

// explained is the JSON output: what the server's API returns for a policy, with the step that has it.
type explained struct {
	Step string `json:"step,omitempty"`
	api.Explained
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
		if err := decode.BarePreset(p.retry); err != nil {
			return policy.Policy{}, fmt.Errorf("--retry: %w", err)
		}
		fields["retry"] = p.retry
	}
	if p.timeout != "" {
		if err := decode.Bare(p.timeout); err != nil {
			return policy.Policy{}, fmt.Errorf("--timeout: %w", err)
		}
		fields["timeout"] = p.timeout
		if strings.Contains(p.timeout, "=") {
			limits := map[string]any{}
			for part := range strings.SplitSeq(p.timeout, ",") {
				name, amount, ok := strings.Cut(part, "=")
				if !ok {
					return policy.Policy{}, fmt.Errorf("--timeout: %q is not written as limit=duration", part)
				}
				if err := decode.Bare(amount); err != nil {
					return policy.Policy{}, fmt.Errorf("--timeout: %w", err)
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

func (a policyVerbs) policyExplainCommand() *cobra.Command {
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
				e, err := sc.explain(s, cmd.Flags().Changed("hang"))
				if err != nil {
					return err
				}
				all = append(all, e)
				if !a.structured() {
					if i > 0 {
						a.say("")
					}
					a.explain(s, e)
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

// subjects returns the policies that a command line is about.
func (a policyVerbs) subjects(given *policyFlags, args []string) ([]subject, error) {
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

// explain shows what the policy does if the attempts behave in the given way.
func (sc scene) explain(s subject, hangGiven bool) (explained, error) {
	p := s.Policy
	attemptLimit := p.StartToClose != nil || p.Heartbeat != nil || p.Inactivity != nil
	act := core.Act{End: "error"}
	if sc.runs != "" {
		d, err := parseDuration(sc.runs)
		if err != nil {
			return explained{}, usage("--fails-after: %w", err)
		}
		act.Run = d
	} else if (hangGiven && sc.hang) || (!hangGiven && attemptLimit) {
		act.End = "hang"
	}
	out, err := cases.Explain(core.Scenario{
		Policy: p, Script: []core.Act{act}, Random: &sc.random, RunDeadline: s.RunLimit, MaxAttempts: sc.shown,
		Match: func(string, *policy.Failure, int) judge.Match { return judge.Match{Matched: true} },
	}, assumption(act))
	return explained{s.Name, out}, err
}

// assumption describes how the attempts are assumed to end.
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

// plot draws the attempts and the deadlines that span them.
func (e *explained) plot() timeline.Plot {
	p := timeline.Plot{Until: e.At.Std()}
	offset := func(d *api.Duration) *time.Duration {
		if d == nil {
			return nil
		}
		return new(d.Std())
	}
	for _, at := range e.Attempts {
		end := at.End
		if at.Limit != "" {
			end += ": " + at.Limit
		}
		p.Rows = append(p.Rows, timeline.Row{
			Number: at.Attempt, At: at.At.Std(), Started: offset(at.Started), Ended: offset(at.Ended), End: end,
			Never: at.Never,
		})
	}
	for _, m := range e.Marks {
		p.Marks = append(p.Marks, timeline.Mark{Name: m.Limit, At: m.At.Std()})
	}
	return p
}

func (a policyVerbs) explain(s subject, e explained) {
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
	a.lines(e.plot().Draw(a.width()))
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

// conclusion describes the end in a sentence.
func conclusion(e explained) string {
	if e.Beyond > 0 {
		const beyond = "attempt %d would begin after more than 292 years, beyond counting: set a maxInterval"
		return fmt.Sprintf(beyond, e.Beyond)
	}
	at := exact(e.At.Std())
	switch e.Phase {
	case "backing_off":
		return fmt.Sprintf("goes on like this; --attempts draws more than %d", len(e.Attempts))
	case "running", "scheduled":
		return "the attempt never ends: no limit stops it"
	}
	return fmt.Sprintf("%s at %s: %s", e.Phase, at, reasons[e.Reason])
}
