package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/internal/reach"
	"github.com/pawl-dev/pawl/policy"
)

func (a webhookVerbs) webhookCommand() *cobra.Command {
	return noun("webhook", "Send the events of runs to URLs",
		"A webhook sends the events that it asks for to a URL, signed as Standard Webhooks has it, and tries for "+
			"days.\npawl dev sends. Where it does not run, webhooks can be managed, and what happens waits.",
		a.webhookAddCommand(), a.webhookChangeCommand(), a.webhookSwitchCommand("enable", "Let a webhook send again"),
		a.webhookSwitchCommand("disable", "Let a webhook send nothing for now"), a.webhookListCommand(),
		a.webhookShowCommand(), a.webhookRemoveCommand(), a.webhookRotateCommand(), a.webhookDeliveriesCommand(),
		a.webhookReplayCommand(), a.webhookTestCommand())
}

// withWebhooks calls fn with the webhooks of the server, of the process that holds the database, or of the database.
func (a webhookVerbs) withWebhooks(ctx context.Context, fn func(hooks api.Webhooks) error) error {
	m, err := a.start(ctx, false)
	if err != nil {
		return err
	}
	if m.remote != nil {
		return errors.Join(fn(m.remote), m.close())
	}
	hooks, err := m.OpenWebhooks(ctx)
	if err == nil {
		err = fn(hooks)
		hooks.Close()
	}
	return errors.Join(err, m.close())
}

// hookFlags are the flags that define what a webhook sends, and how.
type hookFlags struct {
	url                       string
	events, workflows, labels []string
	retry, attempt, giveUp    string
}

func (f *hookFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.events, "event", nil,
		"an event that is sent, such as run.failed, step.* or *; repeatable (default: how runs end, and warnings)")
	flags.StringArrayVar(&f.workflows, "workflow", nil, "only of runs of this workflow; repeatable")
	flags.StringArrayVar(&f.labels, "label", nil, "only of runs with this label: key=value; repeatable")
	flags.StringVar(&f.retry, "retry", "", "how it is tried again, such as exponential(10, 5s, max=1h)")
	flags.StringVar(&f.attempt, "attempt-timeout", "", "how long one attempt may take (default 15s)")
	flags.StringVar(&f.giveUp, "give-up-after", "", "how long it is tried (default 3d)")
}

// policy returns the policy that the flags give, or nil if there is none.
func (f *hookFlags) policy() (*policy.Policy, error) {
	var p policy.Policy
	if f.retry != "" {
		if err := decode.BarePreset(f.retry); err != nil {
			return nil, usage("--retry %v", err)
		}
		retry, err := policy.DecodeRetry(f.retry)
		if err != nil {
			return nil, usage("--retry %v", err)
		}
		retry.Origin = "--retry"
		p.Retry = retry
	}
	for _, limit := range []struct {
		flag, text string
		kind       policy.LimitKind
	}{
		{"--attempt-timeout", f.attempt, policy.LimitStartToClose},
		{"--give-up-after", f.giveUp, policy.LimitScheduleToClose},
	} {
		if limit.text == "" {
			continue
		}
		if err := decode.Bare(limit.text); err != nil {
			return nil, usage("%s %v", limit.flag, err)
		}
		l, err := limit.kind.DecodeLimit(limit.text)
		if err != nil {
			return nil, usage("%s %v", limit.flag, err)
		}
		l.Origin = limit.flag
		p.Set(limit.kind, l)
	}
	if p == (policy.Policy{}) {
		return nil, nil
	}
	return &p, nil
}

func (a webhookVerbs) webhookAddCommand() *cobra.Command {
	var f hookFlags
	var secretFile string
	cmd := &cobra.Command{
		Use: "add NAME URL", Short: "Register a webhook", Args: cobra.ExactArgs(2),
		Long: `From now on the events that it asks for are sent to the URL. The secret with which receivers check the
signature is printed once, and never shown again.

Addresses that are private, loopback or link-local are refused, unless --webhook-allow of the server allows them.`,
		Example: "  pawl webhook add ops https://ops.example/hook --event run.failed --label team=shop",
		RunE: func(cmd *cobra.Command, args []string) error {
			r := api.WebhookRequest{Name: args[0], URL: args[1], Events: f.events, Workflows: f.workflows}
			var err error
			if r.Labels, err = readLabels(f.labels); err != nil {
				return err
			}
			if r.Policy, err = f.policy(); err != nil {
				return err
			}
			if r.Secret, err = a.readSecret(secretFile); err != nil {
				return err
			}
			return a.withWebhooks(cmd.Context(), func(hooks api.Webhooks) error {
				h, err := hooks.AddWebhook(cmd.Context(), r)
				if err != nil {
					return err
				}
				return a.tellSecret(&h, fmt.Sprintf("webhook %s sends %s to %s", h.Name, strings.Join(h.Events, ", "),
					screen.Clean(h.URL)))
			})
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&secretFile, "secret-file", "", secretFileHelp)
	return cmd
}

const secretFileHelp = "read the secret here; - is the standard input (default: a new one)"

// readSecret reads a secret from a file, so that it is not in the list of processes.
func (a webhookVerbs) readSecret(file string) (string, error) {
	var text []byte
	var err error
	switch file {
	case "":
		return "", nil
	case "-":
		text, err = io.ReadAll(io.LimitReader(a.In, 1<<10))
	default:
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return "", usage("--secret-file: %v", err)
	}
	if len(strings.TrimSpace(string(text))) == 0 {
		return "", usage("--secret-file %s is empty", file)
	}
	return strings.TrimSpace(string(text)), nil
}

// tellSecret prints a webhook that has a new secret.
func (a webhookVerbs) tellSecret(h *api.Webhook, what string) error {
	if a.structured() {
		return a.print(h)
	}
	a.say("%s", what)
	a.say("secret %s", h.Secret)
	a.say("Keep it: it is not shown again.")
	return nil
}

func (a webhookVerbs) webhookChangeCommand() *cobra.Command {
	var f hookFlags
	cmd := &cobra.Command{
		Use: "change NAME", Short: "Change what a webhook sends, or where", Args: cobra.ExactArgs(1),
		Long: "What is not given stays as it is. It concerns the events and attempts from now on.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c := api.WebhookChange{URL: f.url, Events: f.events, Workflows: f.workflows}
			var err error
			if c.Labels, err = readLabels(f.labels); err != nil {
				return err
			}
			if c.Policy, err = f.policy(); err != nil {
				return err
			}
			return a.changeWebhook(cmd.Context(), args[0], c, "changed")
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.url, "url", "", "where it sends to")
	return cmd
}

func (a webhookVerbs) webhookSwitchCommand(verb, short string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			off := verb == "disable"
			return a.changeWebhook(cmd.Context(), args[0], api.WebhookChange{Disabled: &off}, verb+"d")
		},
	}
}

func (a webhookVerbs) changeWebhook(ctx context.Context, name string, c api.WebhookChange, done string) error {
	return a.withWebhooks(ctx, func(hooks api.Webhooks) error {
		h, err := hooks.ChangeWebhook(ctx, name, c)
		if err != nil {
			return err
		}
		if a.structured() {
			return a.print(h)
		}
		a.say("webhook %s is %s", h.Name, done)
		return nil
	})
}

func (a webhookVerbs) webhookListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List webhooks", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withWebhooks(cmd.Context(), func(hooks api.Webhooks) error {
				all, err := hooks.Webhooks(cmd.Context())
				if err != nil {
					return err
				}
				if a.structured() {
					return a.print(all)
				}
				if len(all) == 0 {
					a.say("There is no webhook.")
					return nil
				}
				cells := make([][]string, len(all))
				for i := range all {
					h := &all[i]
					state := "on"
					if h.DisabledAt != 0 {
						state = "disabled"
					}
					cells[i] = []string{
						h.Name, state, fmt.Sprint(h.Pending), strings.Join(h.Events, ","), screen.Clean(h.URL),
					}
				}
				return a.table([]string{"NAME", "STATE", "PENDING", "EVENTS", "URL"}, cells)
			})
		},
	}
}

func (a webhookVerbs) webhookShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a webhook", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withWebhooks(cmd.Context(), func(hooks api.Webhooks) error {
				h, err := hooks.Webhook(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if a.structured() {
					return a.print(h)
				}
				a.showWebhook(&h)
				return nil
			})
		},
	}
}

func (a webhookVerbs) showWebhook(h *api.Webhook) {
	fact := func(label, text string) {
		if text != "" {
			a.say("  %s%s", screen.Pad(label, 12), text)
		}
	}
	var labels []string
	for key, value := range h.Labels {
		labels = append(labels, screen.Clean(key+"="+value))
	}
	a.say("%s sends to %s", h.Name, screen.Clean(h.URL))
	fact("events", strings.Join(h.Events, ", "))
	fact("workflows", screen.Clean(strings.Join(h.Workflows, ", ")))
	fact("labels", strings.Join(labels, ", "))
	if h.Policy.Retry != nil {
		fact("retry", h.Policy.Retry.String())
	}
	if limit := h.Policy.StartToClose; limit != nil {
		fact("attempt", duration.Format(limit.After))
	}
	if limit := h.Policy.ScheduleToClose; limit != nil {
		fact("gives up", "after "+duration.Format(limit.After))
	}
	fact("since", live.Local(h.CreatedAt))
	fact("pending", count(h.Pending, "message"))
	if h.DisabledAt != 0 {
		fact("disabled", live.Local(h.DisabledAt)+": "+screen.Clean(h.Disabled))
	}
	switch {
	case h.Missed > 0:
		fact("missed", fmt.Sprintf("%s until %s, because too many deliveries were pending", count(h.Missed, "event"),
			live.Local(h.MissedAt)))
	case h.MissedAt != 0:
		fact("missed", "events before "+live.Local(h.MissedAt)+" that nobody had read for too long")
	}
	if h.Overlap != 0 {
		fact("old secret", "is used too until "+live.Local(h.Overlap))
	}
}

func (a webhookVerbs) webhookRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Remove a webhook with all its deliveries", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withWebhooks(cmd.Context(), func(hooks api.Webhooks) error {
				if err := hooks.RemoveWebhook(cmd.Context(), args[0]); err != nil {
					return err
				}
				if a.structured() {
					return a.print(map[string]string{"removed": args[0]})
				}
				a.say("webhook %s is removed", args[0])
				return nil
			})
		},
	}
}

func (a webhookVerbs) webhookRotateCommand() *cobra.Command {
	var secretFile, overlap string
	cmd := &cobra.Command{
		Use: "rotate NAME", Short: "Give a webhook a new secret", Args: cobra.ExactArgs(1),
		Long: `Prints the new secret once. Until the overlap is over, messages have a signature of the old secret too,
so that receivers can change theirs meanwhile.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var r api.Rotation
			var err error
			if r.Secret, err = a.readSecret(secretFile); err != nil {
				return err
			}
			if overlap != "" {
				d, err := parseDuration(overlap)
				if err != nil {
					return usage("--overlap %v", err)
				}
				r.Overlap = (*api.Duration)(&d)
			}
			return a.withWebhooks(cmd.Context(), func(hooks api.Webhooks) error {
				h, err := hooks.RotateSecret(cmd.Context(), args[0], r)
				if err != nil {
					return err
				}
				what := fmt.Sprintf("webhook %s has a new secret", h.Name)
				if h.Overlap != 0 {
					what += "; the old one is used too until " + live.Local(h.Overlap)
				}
				return a.tellSecret(&h, what)
			})
		},
	}
	cmd.Flags().StringVar(&secretFile, "secret-file", "", secretFileHelp)
	cmd.Flags().StringVar(&overlap, "overlap", "",
		"how long the old secret is used too (default 24h; 0s: not at all)")
	return cmd
}

// reaching are the settings of which addresses a server connects to for others.
type reaching struct{ webhookAllow, httpAllow, httpDeny []string }

// add adds the flags.
func (r *reaching) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&r.webhookAllow, "webhook-allow", nil,
		"private, loopback and link-local addresses that webhooks may reach, such as 127.0.0.1,10.1.0.0/16")
	flags.StringSliceVar(&r.httpAllow, httpAllowFlag, nil,
		"addresses that http steps may reach although they are link-local or denied, such as 169.254.170.2")
	flags.StringSliceVar(&r.httpDeny, "http-deny", nil,
		"addresses that http steps may not reach, such as 10.0.0.0/8,127.0.0.0/8")
}

const httpAllowFlag = "http-allow"

// read makes the policies of the settings.
func (r *reaching) read(a *app) error {
	var allowed, denied []netip.Prefix
	var err error
	for _, s := range []struct {
		flag  string
		texts []string
		into  *[]netip.Prefix
	}{
		{"webhook-allow", r.webhookAllow, &a.webhookAllow},
		{httpAllowFlag, r.httpAllow, &allowed},
		{"http-deny", r.httpDeny, &denied},
	} {
		if *s.into, err = prefixes(s.flag, s.texts); err != nil {
			return err
		}
	}
	a.reach = reach.Inside(httpAllowFlag, allowed, denied)
	return nil
}

// prefixes reads the addresses and networks that a flag names.
func prefixes(flag string, texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if addr, addrErr := netip.ParseAddr(text); addrErr == nil {
			p, err = netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()), nil
		}
		if err != nil {
			return nil, usage("--%s %q is neither an address nor a network; write it as 10.1.0.0/16 or 127.0.0.1",
				flag, text)
		}
		all = append(all, p)
	}
	return all, nil
}
