package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
)

func (a webhookVerbs) webhookDeliveriesCommand() *cobra.Command {
	var q api.DeliveryQuery
	var state, since string
	cmd := &cobra.Command{
		Use: "deliveries [NAME [DELIVERY]]", Short: "List the deliveries of a webhook or of a run, or show one",
		Args: cobra.MaximumNArgs(2),
		Long: "A delivery is one event for one webhook. Those that have ended are kept for a week. " +
			"Without NAME, those of a run for all webhooks are listed.",
		Example: "  pawl webhook deliveries ops --state failed\n  pawl webhook deliveries --run 019b…",
		RunE: func(cmd *cobra.Command, args []string) error {
			q.State = api.DeliveryState(state)
			if len(args) == 0 && (q.Run == "" || q.Cursor != "" || q.Limit < 1) {
				return usage("name a webhook, or give --run RUN, with --limit 1 or more and without --cursor")
			}
			var err error
			if q.Since, err = readInstant(a.clockOf(cmd.Context()), "--since", since); err != nil {
				return err
			}
			return a.withWebhooks(cmd.Context(), func(hooks api.Webhooks) error {
				switch len(args) {
				case 0:
					return a.listDeliveriesOfRun(cmd.Context(), hooks, q)
				case 2:
					d, err := hooks.Delivery(cmd.Context(), args[0], args[1])
					if err != nil {
						return err
					}
					return a.showDelivery(&d)
				}
				page, err := hooks.Deliveries(cmd.Context(), args[0], q)
				if err != nil {
					return err
				}
				return a.listDeliveries(page)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&state, "state", "", "pending, delivered or failed")
	flags.StringVar(&q.Run, "run", "", "of the events of this run: its run id")
	flags.StringVar(&since, "since", "", "of events since: an age such as 2d, or 2026-01-02T15:04:05Z")
	flags.IntVar(&q.Limit, "limit", 50, "how many at most")
	flags.StringVar(&q.Cursor, "cursor", "", "go on after a page: what that page printed as next")
	return cmd
}

// listDeliveriesOfRun lists what the events of a run became, for all webhooks.
func (a *app) listDeliveriesOfRun(ctx context.Context, hooks api.Webhooks, q api.DeliveryQuery) error {
	all, err := hooks.Webhooks(ctx)
	if err != nil {
		return err
	}
	page, more := api.DeliveryPage{Deliveries: []api.Delivery{}}, false
	for i := range all {
		for of := q; ; { // a page ends early where many deliveries of other runs were looked at
			part, err := hooks.Deliveries(ctx, all[i].Name, of)
			if err != nil {
				return err
			}
			page.Deliveries = append(page.Deliveries, part.Deliveries...)
			of.Limit, of.Cursor = of.Limit-len(part.Deliveries), part.Next
			if of.Limit == 0 || of.Cursor == "" {
				more = more || of.Cursor != ""
				break
			}
		}
	}
	slices.SortFunc(page.Deliveries, func(a, b api.Delivery) int {
		return cmp.Or(cmp.Compare(b.ID, a.ID), cmp.Compare(a.Webhook, b.Webhook)) // ids sort by their events
	})
	more = more || len(page.Deliveries) > q.Limit
	page.Deliveries = page.Deliveries[:min(q.Limit, len(page.Deliveries))]
	err = a.listDeliveries(page)
	if err == nil && more && !a.structured() {
		a.say("There may be more: --limit")
	}
	return err
}

func (a *app) listDeliveries(page api.DeliveryPage) error {
	if a.structured() {
		return a.print(page)
	}
	if len(page.Deliveries) == 0 {
		a.say("There is no such delivery.")
		return nil
	}
	head := []string{"EVENT AT", "WEBHOOK", "TYPE", "STATE", "DELIVERY", "WHY"}
	cells := make([][]string, len(page.Deliveries))
	for i := range page.Deliveries {
		d := &page.Deliveries[i]
		cells[i] = []string{live.Local(d.At), d.Webhook, d.Type, string(d.State), d.ID, screen.Clean(d.Why)}
	}
	cutLast(head, cells, a.width())
	if err := a.table(head, cells); err != nil {
		return err
	}
	if page.Next != "" {
		a.say("There are more: --cursor %s", page.Next)
	}
	return nil
}

func (a webhookVerbs) showDelivery(d *api.Delivery) error {
	if a.structured() {
		return a.print(d)
	}
	a.say("%s  %s", d.Type, d.State)
	a.say("  delivery  %s", d.ID)
	if d.Run != "" {
		a.say("  run       %s (%s)", d.Run, screen.Clean(d.Workflow))
	}
	a.say("  event at  %s", live.Local(d.At))
	a.say("  why       %s", screen.Clean(d.Why))
	if d.NextAt != 0 {
		a.say("  next      %s", live.Local(d.NextAt))
	}
	for _, one := range d.Attempts {
		text := "delivered"
		if one.Failure != nil {
			text = screen.Clean(one.Failure.Error())
		}
		a.say("  attempt   %s, %d ms: %s", live.Local(one.At), one.DurationMs, text)
		if one.Response != "" {
			a.say("            it answered: %s", screen.Clean(one.Response))
		}
	}
	a.say("%s", d.Payload)
	return nil
}

func (a webhookVerbs) webhookReplayCommand() *cobra.Command {
	var r api.ReplayRequest
	var since string
	cmd := &cobra.Command{
		Use: "replay NAME [DELIVERY]", Short: "Send a delivery again, or all that failed",
		Args:    cobra.RangeArgs(1, 2),
		Long:    "The message has the same webhook-id as before, so that a receiver can tell that it has it.",
		Example: "  pawl webhook replay ops --failed --since 2d",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				r.Delivery = args[1]
			}
			if (r.Delivery != "") == r.Failed {
				return usage("name one delivery, or give --failed for all that failed")
			}
			var err error
			if r.Since, err = readInstant(a.clockOf(cmd.Context()), "--since", since); err != nil {
				return err
			}
			return a.withWebhooks(cmd.Context(), func(hooks api.Webhooks) error {
				done, err := hooks.Replay(cmd.Context(), args[0], r)
				if err != nil {
					return err
				}
				if a.structured() {
					return a.print(done)
				}
				a.say("%s sent once more", plural(done.Count, "message is", "messages are"))
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&r.Failed, "failed", false, "all that failed")
	cmd.Flags().StringVar(&since, "since", "", "with --failed: of events since: an age such as 2d, or an instant")
	return cmd
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func (a webhookVerbs) webhookTestCommand() *cobra.Command {
	return &cobra.Command{
		Use: "test NAME", Short: "Send a test message and show the result", Args: cobra.ExactArgs(1),
		Long: "The message has the type webhook.test. It is sent once.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withWebhooks(cmd.Context(), func(hooks api.Webhooks) error {
				d, err := hooks.TestWebhook(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if a.structured() {
					err = a.print(d)
				} else {
					a.say("%s: %s", d.State, screen.Clean(d.Why))
				}
				if err == nil && d.State != api.DeliveryDelivered {
					err = &statusError{status: exitFailed}
				}
				return err
			})
		},
	}
}
