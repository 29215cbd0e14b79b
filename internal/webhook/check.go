package webhook

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/systems"
	"github.com/pawl-dev/pawl/policy"
)

// The bounds of a registration.
const (
	longestURL     = 2048
	mostFilters    = 100 // the most filters of each sort
	longestAttempt = 5 * time.Minute
	mostWebhooks   = 1000
)

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// invalid refuses a request. field names the wrong field.
func invalid(field, format string, args ...any) error {
	return &api.Error{Code: api.CodeInvalid, Message: "webhook: " + field + ": " + fmt.Sprintf(format, args...)}
}

func checkName(name string) error {
	if !validName.MatchString(name) {
		return invalid("name", "%q: write 1 to 63 small letters, digits, - and _, beginning with a letter or digit",
			name)
	}
	return nil
}

// checkURL refuses what cannot be sent to, and addresses that are not allowed. A name is checked when it is connected
// to.
func (d *Dispatcher) checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return invalid("url", "%q: write it as https://example.com/path", text)
	case len(text) > longestURL:
		return invalid("url", "it has %d bytes, more than %d", len(text), longestURL)
	case u.User != nil:
		return invalid("url", "it holds a password, which lists would show: receivers check the signature instead")
	case u.Fragment != "":
		return invalid("url", "%q: what follows # is never sent: leave it out", text)
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	addr, err := netip.ParseAddr(host)
	if err != nil && isNumber(host[strings.LastIndexByte(host, '.')+1:]) {
		return invalid("url", "%q is not a name: write an address with four numbers, such as 192.0.2.1", host)
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		addr, err = netip.MustParseAddr("127.0.0.1"), nil
	}
	if err == nil {
		err = d.guard.Check(addr)
	} else {
		err = nil
	}
	if err != nil {
		return invalid("url", "%v", err)
	}
	return nil
}

// isNumber reports whether the last part of a host is a number: then some resolvers take the whole host for an address,
// such as 2130706433, 127.1 and 0x7f.1.
func isNumber(part string) bool {
	_, err := strconv.ParseUint(part, 0, 64)
	return err == nil || part != "" && strings.Trim(part, "0123456789") == ""
}

// checkEvents refuses names of events that there are not.
func checkEvents(events []string) error {
	if len(events) > mostFilters {
		return invalid("events", "%d of them are more than %d", len(events), mostFilters)
	}
	known := eventTypes()
	for i, text := range events {
		prefix, all := strings.CutSuffix(text, "*")
		if text == "*" || slices.Contains(known, text) ||
			all && slices.ContainsFunc(known, func(k string) bool { return group(k) == prefix }) {
			continue
		}
		message := fmt.Sprintf("there is no event %q: ", text)
		if hint := nearest.Hint(text, known); hint != "" {
			message += hint
		} else {
			message += "write a type such as run.failed, a group such as step.*, or *"
		}
		return invalid(fmt.Sprintf("events[%d]", i), "%s", message)
	}
	return nil
}

// group returns the part of a type that a pattern such as run.* names.
func group(eventType string) string {
	first, _, _ := strings.Cut(eventType, ".")
	return first + "."
}

func checkFilters(workflows []string, labels map[string]string) error {
	if len(workflows) > mostFilters || len(labels) > mostFilters {
		return invalid("workflows", "more than %d workflows or labels", mostFilters)
	}
	for i, name := range workflows {
		if name == "" {
			return invalid(fmt.Sprintf("workflows[%d]", i), "a workflow has no name")
		}
	}
	if _, err := core.MakeLabels(labels); err != nil {
		return invalid("labels", "%v", err)
	}
	return nil
}

// defaultPolicy tries a delivery for three days, at last once an hour.
func defaultPolicy() policy.Policy {
	limit := func(after time.Duration, retry bool) *policy.Limit {
		return &policy.Limit{After: after, Retry: retry, Origin: "default of webhooks"}
	}
	return policy.Policy{
		Retry: &policy.Retry{
			MaxAttempts: policy.Unlimited, InitialInterval: 5 * time.Second, BackoffCoefficient: 2,
			MaxInterval: time.Hour, Jitter: 0.25, On: []policy.Kind{policy.KindError, policy.KindTimeout},
			Origin: "default of webhooks",
		},
		Limits: policy.Limits{
			StartToClose: limit(15*time.Second, true), ScheduleToClose: limit(72*time.Hour, false),
		},
	}
}

// policyOf returns the policy of a webhook's deliveries: the given one, over the default.
func policyOf(given *policy.Policy) (policy.Policy, error) {
	p := defaultPolicy()
	if given == nil {
		return p, nil
	}
	p = p.Overlay(*given)
	for _, kind := range []policy.LimitKind{
		policy.LimitScheduleToStart, policy.LimitDeadline, policy.LimitHeartbeat, policy.LimitInactivity,
		policy.LimitWait,
	} {
		if given.Get(kind) != nil {
			return p, invalid("policy.timeout", "a delivery has no %s: give startToClose (of one attempt) and "+
				"scheduleToClose (of all)", kind)
		}
	}
	attempt, all := p.Get(policy.LimitStartToClose), p.Get(policy.LimitScheduleToClose)
	switch {
	case p.Retry == nil || p.Retry.MaxAttempts == 0:
		return p, invalid("policy.retry", "a delivery needs at least one attempt")
	case p.Retry.When != "":
		return p, invalid("policy.retry.when", "a delivery has no expressions: give on and maxAttempts")
	case attempt == nil || attempt.After <= 0 || attempt.After > longestAttempt:
		return p, invalid("policy.timeout.startToClose", "an attempt takes at most %s", api.Duration(longestAttempt))
	case p.Retry.MaxAttempts < 0 && (all == nil || all.After <= 0):
		return p, invalid("policy", "without maxAttempts and without scheduleToClose a delivery would never end")
	}
	return p, nil
}

// defaultEvents are the events of a webhook that asks for none: the ends of runs, and warnings that something may soon
// be too late.
var defaultEvents = []string{
	"run.succeeded", "run.failed", "run.timed_out", "run.cancelled", "run.terminated",
	core.EventRunWarning, core.EventStepWarning,
}

// eventTypes returns all types that a webhook can ask for.
func eventTypes() []string {
	all := []string{
		core.EventRunScheduled, core.EventRunQueued, core.EventRunHeld, core.EventRunStarted, core.EventRunWaiting,
		core.EventRunPaused, core.EventRunResumed, core.EventRunWarning, core.EventRunCompensating,
		core.EventRunStopping,
		core.EventStepScheduled, core.EventStepSuspended, core.EventStepResumed, core.EventStepRetryScheduled,
		core.EventStepRetried, core.EventStepWarning, core.EventAttemptHeld, core.EventAttemptStarted,
		core.EventAttemptHeartbeat, core.EventAttemptEnded, core.EventAttemptLost, core.EventAttemptKilled,
		core.EventAttemptAbandoned,
		core.EventSignalReceived, core.EventStatePublished, core.EventUpdateAccepted, core.EventUpdateAnswered,
	}
	for p := core.RunPhase(0); !strings.HasPrefix(p.String(), "unknown"); p++ {
		if p.Closed() {
			all = append(all, "run."+p.String())
		}
	}
	for p := core.StepPhase(0); !strings.HasPrefix(p.String(), "unknown"); p++ {
		if p.Closed() {
			all = append(all, "step."+p.String())
		}
	}
	for op := core.Op(1); !strings.HasPrefix(op.String(), "unknown"); op++ {
		all = append(all, "operation."+op.String())
	}
	all = append(all, api.EventAttentionRaised, api.EventAttentionCleared)
	for _, system := range systems.All {
		all = append(all, system.Messages...)
	}
	return all
}

// asksFor reports whether a webhook wants an event. Heartbeats are many, so only their own name asks for them.
func asksFor(events []string, ev *api.Event) bool {
	own := typeOf(ev)
	return slices.ContainsFunc(events, func(text string) bool {
		prefix, all := strings.CutSuffix(text, "*")
		if all {
			return ev.Type != core.EventAttemptHeartbeat &&
				(strings.HasPrefix(ev.Type, prefix) || strings.HasPrefix(own, prefix))
		}
		return text == ev.Type || text == own
	})
}

// typeOf returns the type of an event's message. A system that has words for the events of whole runs names it.
func typeOf(ev *api.Event) string {
	if ev.Step != "" || ev.Dialect == "" {
		return ev.Type
	}
	for _, system := range systems.All {
		if system.Message != nil {
			if own := system.Message(ev.Dialect); own != "" {
				return own
			}
		}
	}
	return ev.Type
}
