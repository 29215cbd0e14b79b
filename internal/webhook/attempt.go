package webhook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/internal/reach"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/internal/worker/web"
	"github.com/pawl-dev/pawl/policy"
)

const (
	mostAttempts = 100     // that are kept of a delivery
	mostRead     = 4 << 10 // bytes of an answer that are read; the connection is closed if there are more
	mostShown    = 1 << 10 // and that are kept
)

// attempt makes one request for a delivery and records the result in it. It returns true if the receiver wants no more
// messages.
func (d *Dispatcher) attempt(ctx context.Context, h *hook, dl *api.Delivery) (gone bool) {
	if dl.Tried > 0 { // every delivery is tried at least once, even if it is late
		if limit := h.Policy.Get(policy.LimitScheduleToClose); limit != nil {
			if now := d.cfg.Now(); now >= core.Time(dl.Since).Add(limit.After) {
				end(dl, api.DeliveryFailed, now, "given up: "+reasonText(policy.ReasonNoTimeLeft, &h.Policy))
				return false
			}
		}
	}
	started := d.cfg.Now()
	a := api.DeliveryAttempt{At: api.Time(started)}
	failure := d.request(ctx, h, dl, started, &a)
	now := d.cfg.Now()
	a.DurationMs, a.Failure = now.Sub(started).Milliseconds(), failure
	dl.Tried++
	if failure == nil {
		end(dl, api.DeliveryDelivered, now, fmt.Sprintf("attempt %d was answered %s", dl.Tried, status(a.Status)))
	} else {
		d.judge(h, dl, &a, failure, now)
	}
	dl.Attempts = append(dl.Attempts, a)
	if n := len(dl.Attempts); n > mostAttempts {
		dl.Attempts = dl.Attempts[n-mostAttempts:]
	}
	return a.Status == http.StatusGone
}

// judge decides what follows a failed attempt. It is asked once: the instant that it names is stored.
func (d *Dispatcher) judge(h *hook, dl *api.Delivery, a *api.DeliveryAttempt, f *policy.Failure, now core.Time) {
	history := judge.History{Counted: dl.Tried}
	if limit := h.Policy.Get(policy.LimitScheduleToClose); limit != nil {
		history.Deadline = core.Time(dl.Since).Add(limit.After)
		history.Bound = policy.LimitScheduleToClose
	}
	if n := len(dl.Attempts); n > 0 && dl.Tried > 1 {
		last := dl.Attempts[n-1]
		history.Previous = last.NextAt.Sub(last.At) - time.Duration(last.DurationMs)*time.Millisecond
	}
	seed := [16]byte(sha256Of(dl.ID)[:16])
	v := judge.Judge(&h.Policy, history, f, judge.Match{}, now, judge.Random(seed, h.Name, dl.Tried))
	if !v.Retry {
		a.Reason = v.Reason.String()
		end(dl, api.DeliveryFailed, now, fmt.Sprintf("given up after %s: %s; the last failure: %s",
			attempts(dl.Tried), reasonText(v.Reason, &h.Policy), f.Error()))
		return
	}
	a.NextAt = api.Time(v.At)
	dl.NextAt = a.NextAt
	dl.Why = fmt.Sprintf("attempt %d failed: %s; the next one comes after %s", dl.Tried, f.Error(),
		duration.Format(v.Delay))
	if f.RetryAfter != nil {
		dl.Why += ", as the receiver asked for (Retry-After)"
	}
}

// end ends a delivery.
func end(dl *api.Delivery, state api.DeliveryState, now core.Time, why string) {
	dl.State, dl.EndedAt, dl.NextAt, dl.Why = state, api.Time(now), 0, why
}

func sha256Of(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

func attempts(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}

// reasonText explains why a delivery is not tried again, and which part of its policy decided that.
func reasonText(r policy.Reason, p *policy.Policy) string {
	switch r {
	case policy.ReasonNonRetryable:
		return "the receiver wants no more messages"
	case policy.ReasonAttemptsExhausted, policy.ReasonRetriesOff:
		return fmt.Sprintf("its policy allows %s", attempts(p.Retry.MaxAttempts))
	case policy.ReasonNotMatched:
		return "its policy does not retry such a failure"
	case policy.ReasonNoTimeLeft:
		limit := p.Get(policy.LimitScheduleToClose)
		text := "the next attempt would begin after the limit scheduleToClose"
		if limit != nil {
			text += " of " + duration.Format(limit.After)
		}
		return text
	default:
		return r.String()
	}
}

func status(code int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code)))
}

// request sends the message of a delivery. It returns why that failed; nil: the receiver has it.
func (d *Dispatcher) request(
	ctx context.Context, h *hook, dl *api.Delivery, now core.Time, a *api.DeliveryAttempt,
) *policy.Failure {
	limit := h.Policy.Get(policy.LimitStartToClose)
	ctx, cancel := context.WithTimeout(ctx, limit.After)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(dl.Payload))
	if err != nil {
		return &policy.Failure{Kind: policy.KindFailed, Type: "invalid_url", Message: err.Error()}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Pawl-Webhooks")
	req.Header.Set("webhook-id", dl.ID)
	req.Header.Set("webhook-timestamp", stamp(now))
	req.Header.Set("webhook-signature", signature(h.Secrets, now, dl.ID, dl.Payload))
	res, err := d.client.Do(req)
	if err != nil {
		return connectionFailure(ctx, limit, err)
	}
	defer res.Body.Close()
	a.Status = res.StatusCode
	// The rest of a long answer is not read: the status has come.
	body, _ := io.ReadAll(io.LimitReader(res.Body, mostRead))
	a.Response = worker.Shorten(worker.ValidText(body), mostShown)
	if res.StatusCode/100 == 2 {
		return nil
	}
	f := &policy.Failure{
		Kind: policy.KindError, Type: "status", Code: res.StatusCode,
		Message:    "the receiver answered " + status(res.StatusCode),
		RetryAfter: web.RetryAfterOf(res.Header, d.cfg.Now().Std()),
	}
	if f.RetryAfter != nil && *f.RetryAfter <= 0 {
		f.RetryAfter = nil // it asks for no delay, and the policy's keeps it from being asked without a pause for days
	}
	if f.RetryAfter != nil && *f.RetryAfter > longestAsked {
		f.RetryAfter = nil // otherwise its messages would be dropped, because it asks for a week, or for years
	}
	switch {
	case res.StatusCode == http.StatusGone:
		f.NonRetryable = true
	case res.StatusCode/100 == 3:
		f.Message += "; redirects are not followed: change the URL"
	}
	return f
}

// longestAsked bounds what a receiver may ask for in Retry-After. Beyond it the delay is the policy's.
const longestAsked = 24 * time.Hour

// connectionFailure explains why there was no answer.
func connectionFailure(ctx context.Context, limit *policy.Limit, err error) *policy.Failure {
	var refused *reach.RefusedError
	var dns *net.DNSError
	var outer *url.Error
	f := &policy.Failure{Kind: policy.KindError, Type: "connection"}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &policy.Failure{
			Kind: policy.KindTimeout, Limit: policy.LimitStartToClose, Origin: limit.Origin,
			Message: "the receiver did not answer within " + duration.Format(limit.After),
		}
	case errors.As(err, &refused):
		f.Type, f.Message = "address_refused", refused.Error()
	case errors.As(err, &dns):
		f.Type, f.Message = "dns", dns.Error()
	case errors.As(err, &outer):
		f.Message = outer.Err.Error()
	default:
		f.Message = err.Error()
	}
	return f
}
