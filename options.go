package pawl

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// Amount is a length of time: a [time.Duration], or a text such as "1h30m" in the grammar of package duration.
type Amount interface{ ~string | time.Duration }

// StepOption says how long a step may take, how often it is tried, and where it runs. A [Child] takes it, too.
type StepOption func(*stepOptions)

func (o StepOption) child(s *stepOptions) { s.note("options", applied([]StepOption{o}, s)) }

// ChildOption is an option of a [Child]: a [StepOption], or what only child runs have.
type ChildOption interface{ child(s *stepOptions) }

type childOption func(*stepOptions)

func (o childOption) child(s *stepOptions) { o(s) }

// WaitOption bounds the wait for an event or an update.
type WaitOption func(*stepOptions)

type stepOptions struct {
	policy   policy.Policy
	queue    string
	service  string
	key      string
	priority int32
	close    string
	spread   bool
	errs     []error
}

// Retries says how often something is tried, and when: a [RetryPolicy], or a text such as "fixed(3, 1s)".
type Retries interface{ ~string | RetryPolicy }

// RetryPolicy is a retry policy in fields. Zero values: one attempt, and for those that have more, one second before
// the second one, doubled for each further one.
type RetryPolicy struct {
	MaxAttempts        int           // the number of all attempts, the first one included; -1: unlimited
	InitialInterval    time.Duration // default 1s
	BackoffCoefficient float64       // default 2
	MaxInterval        time.Duration // default none
	Jitter             float64       // 0 to 1
	NonRetryable       []string      // types of errors that are never retried, as registered by RegisterError
	MaxLost            int           // losses while it runs alone that stop a step; default 5; -1: unlimited
}

// decode checks the fields as those of flow files are checked. It checks the durations itself, since they are no texts.
func (r RetryPolicy) decode() (*policy.Retry, error) {
	fields := map[string]any{"nonRetryable": r.NonRetryable}
	if r.MaxAttempts != 0 {
		fields["maxAttempts"] = r.MaxAttempts
	}
	if r.BackoffCoefficient != 0 {
		fields["backoffCoefficient"] = r.BackoffCoefficient
	}
	if r.Jitter != 0 {
		fields["jitter"] = r.Jitter
	}
	if r.MaxLost != 0 {
		fields["maxLost"] = r.MaxLost
	}
	out, err := policy.DecodeRetry(fields)
	if err != nil {
		return nil, err
	}
	if r.InitialInterval != 0 {
		out.InitialInterval = r.InitialInterval
	}
	out.MaxInterval = r.MaxInterval
	switch {
	case out.InitialInterval < 0:
		return nil, fmt.Errorf("initialInterval: %s is negative", out.InitialInterval)
	case out.MaxInterval < 0:
		return nil, fmt.Errorf("maxInterval: %s is negative", out.MaxInterval)
	case out.MaxInterval > 0 && out.MaxInterval < out.InitialInterval:
		return nil, fmt.Errorf("maxInterval: %s is shorter than the initial interval %s",
			out.MaxInterval, out.InitialInterval)
	}
	return out, nil
}

// Retry sets a step's retry policy: "exponential(5, 1s, max=30s, jitter=0.25)", "fixed(3, 1s)", "none", or a
// [RetryPolicy]. The number is attempts in all. Default: one attempt.
func Retry[R Retries](r R) StepOption {
	p, err := retryOf(r)
	return func(o *stepOptions) {
		o.note("retry", err)
		o.policy.Retry = p
	}
}

// retryOf returns a retry policy that was given in either form.
func retryOf[R Retries](r R) (*policy.Retry, error) {
	if p, ok := any(r).(RetryPolicy); ok {
		return p.decode()
	}
	return policy.DecodeRetry(reflect.ValueOf(r).String())
}

// wholePolicy sets a step's whole policy, limits and retry; err says what is wrong with it. It replaces the defaults.
func wholePolicy(p policy.Policy, err error) StepOption {
	if err == nil && p.Retry != nil && p.Retry.When != "" {
		err = errors.New("retry: a Go step evaluates no expression; let its function return NonRetryable instead")
	}
	return func(o *stepOptions) {
		o.note("policy", err)
		o.policy = p
	}
}

// Timeout bounds a step with all its attempts, their backoff and their queueing, from its first scheduling on
// (scheduleToClose). It is never retried. It is the limit that most steps need.
func Timeout[D Amount](after D, opts ...LimitOption) StepOption {
	return stepLimit(policy.LimitScheduleToClose, after, opts)
}

// AttemptTimeout bounds each attempt of a step, from its start (startToClose). It is retried if the retry policy allows
// it.
func AttemptTimeout[D Amount](after D, opts ...LimitOption) StepOption {
	return stepLimit(policy.LimitStartToClose, after, opts)
}

// QueueTimeout bounds each attempt's wait for a worker (scheduleToStart). It is never retried.
func QueueTimeout[D Amount](after D, opts ...LimitOption) StepOption {
	return stepLimit(policy.LimitScheduleToStart, after, opts)
}

// WorkTimeout bounds a step with all its attempts from the start of its first attempt on (deadline). It is for steps
// that may wait for a worker, or for their turn in a queue, for longer than their work takes: that time does not count.
// It is never retried.
func WorkTimeout[D Amount](after D, opts ...LimitOption) StepOption {
	return stepLimit(policy.LimitDeadline, after, opts)
}

// HeartbeatTimeout bounds the time between an attempt's heartbeats; see [Heartbeat]. It is retried as AttemptTimeout
// is.
func HeartbeatTimeout[D Amount](after D, opts ...LimitOption) StepOption {
	return stepLimit(policy.LimitHeartbeat, after, opts)
}

// Within bounds the wait for an event or an update, from its beginning. Its expiry is [ErrDeadlineExceeded].
func Within[D Amount](after D, opts ...LimitOption) WaitOption {
	return WaitOption(stepLimit(policy.LimitWait, after, opts))
}

// Queue sets the task queue that a [Handler.Call] goes to, and whose limits bound it; see Config.Queues. Default: the
// engine's own, which [Engine.Serve] serves by "". A [Step] stays in its process; its queue has to be in Config.Queues,
// and the step takes its turn among all that share the queue.
func Queue(name string) StepOption { return func(o *stepOptions) { o.queue = name } }

// Service names the service that a step uses, whose limits bound it together with all other steps that use it; see
// Config.Services.
func Service(name string) StepOption { return func(o *stepOptions) { o.service = name } }

// Key sets the key by which limits for each key of the step's queue and service count, such as a tenant. Steps without
// one have the key "". The key of a [Child] is that of the run in its queue; see [RunQueue].
func Key(key string) StepOption { return func(o *stepOptions) { o.key = key } }

// Priority orders the attempts that wait for a worker: a higher number goes first. Of a [Child] with a [Key], it is the
// priority of the run in its queue. Default 0.
func Priority(n int32) StepOption { return func(o *stepOptions) { o.priority = n } }

// Spread lets a [Child] run be kept in another partition of the database than its parent. It is for many children that
// work at the same time: they then use several processor cores, or several nodes of a cluster. Each costs a message
// there and one back. In a database with one partition it makes no difference.
func Spread() ChildOption { return childOption(func(o *stepOptions) { o.spread = true }) }

// Abandon lets a [Child] run go on when its parent closes. Without it, and without [TerminateWithParent], it is
// cancelled then.
func Abandon() ChildOption { return childOption(func(o *stepOptions) { o.close = "abandon" }) }

// TerminateWithParent closes a [Child] run at once when its parent closes: nothing of it undoes what it has done.
func TerminateWithParent() ChildOption {
	return childOption(func(o *stepOptions) { o.close = "terminate" })
}

// MustPolicy combines options into one, to use it for many steps, and checks them when the program starts:
//
//	var patient = pawl.MustPolicy(pawl.Retry("exponential(5, 1s, max=30s)"), pawl.Timeout("5m"))
//
// It panics if an option is invalid, as regexp.MustCompile does: use it for variables of packages. Options in a body
// are checked when the body reaches them, those in a definition ([Defaults], [ForStep]) when it is defined.
func MustPolicy(opts ...StepOption) StepOption {
	if _, err := stepPolicy(opts); err != nil {
		panic(invalid(err, "policy"))
	}
	return func(o *stepOptions) {
		for _, opt := range opts {
			opt(o)
		}
	}
}

// LimitOption says what else a limit does: when it ends, or before.
type LimitOption func(*limitOptions)

type limitOptions struct {
	limit policy.Limit
	err   error
}

// OnExpireCancel ends the step as cancelled, [ErrCancelled], when the limit ends. Without it the step has timed out.
func OnExpireCancel() LimitOption {
	return func(o *limitOptions) { o.limit.OnExpire = policy.ExpireCancel }
}

// NoRetry ends the step when the limit ends, whatever the step's retry policy says.
func NoRetry() LimitOption { return func(o *limitOptions) { o.limit.Retry = false } }

// Warn records a warning when that percentage of the limit has passed.
func Warn(percent int) LimitOption {
	return func(o *limitOptions) {
		if percent < 1 || percent > 99 {
			o.err = fmt.Errorf("a warning at %d%% is not between 1%% and 99%%", percent)
			return
		}
		o.limit.Warn = percent
	}
}

func stepLimit[D Amount](kind policy.LimitKind, after D, opts []LimitOption) StepOption {
	l, err := limitOf(kind, after, opts)
	return func(o *stepOptions) {
		o.note(kind.String(), err)
		o.policy.Set(kind, l)
	}
}

func limitOf[D Amount](kind policy.LimitKind, after D, opts []LimitOption) (*policy.Limit, error) {
	d, err := amount(after)
	if err != nil {
		return nil, err
	}
	if d <= 0 {
		return nil, fmt.Errorf("%s leaves no time at all: leave the option out for no limit", d)
	}
	o := limitOptions{limit: policy.Limit{After: d, Retry: kind.RetriesByDefault()}}
	if err := applied(opts, &o); err != nil {
		return nil, err
	}
	if o.err != nil {
		return nil, o.err
	}
	return &o.limit, nil
}

// amount reads a length of time.
func amount[D Amount](v D) (time.Duration, error) {
	switch v := any(v).(type) {
	case time.Duration:
		if v < 0 {
			return 0, fmt.Errorf("%s is negative", v)
		}
		return v, nil
	case string:
		return duration.Parse(v)
	default:
		return duration.Parse(fmt.Sprint(v))
	}
}

// fit returns an error for options that would have no effect on a step of the kind.
func (o *stepOptions) fit(kind core.StepKind) error {
	if o.service != "" && kind != core.KindTask {
		return errors.New("Service is for Step and Call")
	}
	if o.key != "" && kind != core.KindTask && kind != core.KindChild {
		return errors.New("Key is for Step, Call and Child")
	}
	if kind != core.KindWait {
		return nil
	}
	if o.policy.Retry != nil {
		return errors.New("Retry has no effect on an event wait, which has no attempts")
	}
	if o.queue != "" || o.priority != 0 {
		return errors.New("Queue and Priority have no effect on an event wait, which has no attempts")
	}
	for _, limit := range policy.StepLimits {
		if limit != policy.LimitWait && limit != policy.LimitScheduleToClose && o.policy.Get(limit) != nil {
			return fmt.Errorf("%s has no effect on an event wait, which has no attempts: bound it by Within", limit)
		}
	}
	return nil
}

func (o *stepOptions) note(what string, err error) {
	if err != nil {
		o.errs = append(o.errs, fmt.Errorf("%s: %w", what, err))
	}
}

// stepPolicy combines options: the workflow's defaults, those it has for the step, and the call's own.
func stepPolicy(lists ...[]StepOption) (stepOptions, error) {
	if !slices.ContainsFunc(lists, func(list []StepOption) bool { return len(list) > 0 }) {
		return stepOptions{}, nil
	}
	var o stepOptions
	for _, list := range lists {
		o.note("options", applied(list, &o))
	}
	return o, errors.Join(o.errs...)
}

// share says whose limits bound a step. The step of a body stays on the queue that only its own process serves.
func (o *stepOptions) share(spec *core.StepSpec) {
	if spec.Kind != core.KindTask && spec.Kind != core.KindChild {
		return
	}
	s := core.Share{Service: o.service, Key: o.key}
	if spec.Type == body.TypeLocal {
		s.Queue, spec.Queue = o.queue, ""
	}
	if s == (core.Share{}) {
		return
	}
	share := s // so that only a step that shares limits needs memory for them
	spec.Share = &share
}
