package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/internal/api"
)

func (a runVerbs) runLogsCommand() *cobra.Command {
	var attempt int
	var follow bool
	var stream string
	cmd := &cobra.Command{
		Use: "logs RUN [STEP]", Short: "Print what the steps of a run printed", Args: cobra.RangeArgs(1, 2),
		Long: `Prints what the attempts of a run's exec steps printed, stdout and stderr in the order in which they
came. With a STEP, only what that one printed, as it was; on a terminal control characters are made visible. Without
one, or with a step that has items, each line begins with its step, and a line of stderr has ! in place of |. An item is
named by its number or by its name: 'load[3]', 'test[linux, 2]'.

With --follow it goes on until the run has ended.`,
		Example: "  pawl run logs @last\n  pawl run logs order-42 render --attempt 2\n" +
			"  pawl run logs order-42 --follow",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case attempt < 0 || cmd.Flags().Changed("attempt") && attempt == 0:
				return usage("--attempt counts from 1")
			case attempt > 0 && len(args) == 1:
				return usage("--attempt is about one step; name it: pawl run logs RUN STEP --attempt %d", attempt)
			case stream != "" && stream != "stdout" && stream != "stderr":
				return usage("--stream is stdout or stderr, not %q", stream)
			}
			return a.reading(cmd.Context(), func(ctx context.Context, svc api.Service) error {
				return a.printLogs(ctx, svc, args, logsAsked{attempt, follow, stream})
			})
		},
	}
	cmd.Flags().IntVar(&attempt, "attempt", 0, "of this attempt only")
	cmd.Flags().BoolVar(&follow, "follow", false, "go on until the run has ended")
	cmd.Flags().StringVar(&stream, "stream", "", "only of stdout, or of stderr")
	a.completeFor(cmd, 2)
	return cmd
}

// logsAsked says what of the logs of a run is printed.
type logsAsked struct {
	attempt int    // 0: of all
	follow  bool   // goes on until the run has ended
	stream  string // empty: of both
}

// printLogs prints what the attempts of a run, or of a step of it, have printed.
func (a runVerbs) printLogs(ctx context.Context, svc api.Service, args []string, asked logsAsked) error {
	attempt, follow := asked.attempt, asked.follow
	r, err := svc.Run(ctx, args[0])
	if err != nil {
		return err
	}
	logs, err := a.logsOf(svc)
	if err != nil {
		return err
	}
	p := &printed{
		out: a.Out, logs: logs, how: outputFollow, clean: isTerminal(a.Out), raw: len(args) == 2,
		above: map[string]string{}, stream: asked.stream,
	}
	several, key := false, ""
	if p.raw {
		s, err := findStep(r, args[1])
		if err != nil && (!follow || r.Phase.Closed()) {
			return err
		}
		several = attempt == 0 && (s != nil && len(s.Attempts) > 1 || follow)
		if key = args[1]; s != nil {
			key = s.Step
			p.raw = s.Kind != api.KindGroup // its items print, each with its name
		}
	}
	take := func(ev api.Event) {
		of := key == "" || ev.Step == key || !p.raw && strings.HasPrefix(ev.Step, key+"[")
		if !of || attempt > 0 && ev.Attempt != attempt {
			return
		}
		if several && p.raw && ev.Type == api.EventAttemptStarted {
			fmt.Fprintf(a.Out, "==> attempt %d\n", ev.Attempt)
		}
		p.event(ctx, ev)
	}
	if follow {
		return a.followLogs(ctx, svc, r, p, take)
	}
	err = a.eventsUpTo(ctx, svc, r, func(ev api.Event) error {
		take(ev)
		return nil
	})
	for _, o := range p.open { // it still runs
		p.rest(o)
	}
	if err == nil && p.raw && !p.found && !p.exists(ctx, r, key, attempt) {
		return noLog(r, args[1], attempt)
	}
	return err
}

// noLog says why there is nothing to print of a step.
func noLog(r *api.Run, key string, attempt int) error {
	text := fmt.Sprintf("step %q of run %s", key, live.Short(r.Run))
	s, err := findStep(r, key)
	switch {
	case err != nil:
		return err
	case s.Kind == api.KindFlow && len(s.Attempts) > 0:
		return fmt.Errorf("%s prints nothing itself, its run does: pawl run logs %s", text,
			live.Short(s.Attempts[len(s.Attempts)-1].Child))
	case s.Kind == api.KindSleep || s.Kind == api.KindWait:
		return fmt.Errorf("%s has no log: it is a %s, and prints nothing", text, s.Kind)
	case len(s.Attempts) == 0 && s.Phase.Closed():
		return fmt.Errorf("%s", strings.TrimSuffix(text+" never began: "+s.Why, ": "))
	case len(s.Attempts) == 0:
		return fmt.Errorf("%s has not begun yet; its log comes with pawl run logs %s --follow", text, live.Short(r.Run))
	case attempt > len(s.Attempts):
		return fmt.Errorf("%s has had no attempt %d yet, only %d", text, attempt, len(s.Attempts))
	case s.Type != "" && s.Type != "exec":
		return fmt.Errorf("%s has no log: it is a step with %s, and only exec steps print something", text, s.Type)
	}
	last := s.Attempts[len(s.Attempts)-1]
	if attempt > 0 {
		last = s.Attempts[attempt-1]
	}
	if last.Failure != nil {
		text += " printed nothing here (" + last.Failure.Message + "); it"
	}
	return fmt.Errorf("%s has no log here: if a process began, its log is on the machine that executed it, or was "+
		"removed", text)
}

// exists reports whether an attempt of a step has a log, be it an empty one.
func (p *printed) exists(ctx context.Context, r *api.Run, step string, attempt int) bool {
	s, err := findStep(r, step)
	if err != nil {
		return false
	}
	for _, at := range s.Attempts {
		if attempt != 0 && at.Attempt != attempt {
			continue
		}
		if _, err := p.logs.Log(ctx, r.Run, api.LogPlace{Step: step, Attempt: at.Attempt}); err == nil {
			return true
		}
	}
	return false
}

// followLogs prints new output until the run has ended.
func (a runVerbs) followLogs(
	ctx context.Context, svc api.Service, r *api.Run, p *printed, take func(api.Event),
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, ended := make(chan api.Event), make(chan error, 1)
	go func() {
		ended <- svc.Watch(ctx, r.Run, 0, func(ev api.Event) error {
			select {
			case events <- ev:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	look := time.NewTicker(frameEvery)
	defer look.Stop()
	for {
		select {
		case ev := <-events:
			take(ev)
		case <-look.C:
			p.poll(ctx)
		case err := <-ended:
			return err
		}
	}
}
