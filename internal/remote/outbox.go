package remote

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/policy"
)

// outbox sends a worker's reports in order, as many at once as there are. A report is kept until the server has taken
// it, or has refused it forever.
type outbox struct {
	tasks    api.Tasks
	answered func(r *api.TaskReport, a *api.TaskAnswer)
	log      *slog.Logger

	mu       sync.Mutex
	waiting  []*report
	signs    map[sign]*report // the waiting ones: the last heartbeat and the last output of each task
	apart    int              // reports that wait to be repeated
	finished bool             // no more reports come
	ready    chan struct{}    // holds a value while there may be reports
}

// report is a report that was not answered yet.
type report struct {
	api.TaskReport
	retry time.Duration // how long it waited before it was last repeated
	last  bool          // it replaces a refused one; nothing replaces it
}

// sign names the signs of life of one kind that a task gives. Only the last one is worth sending.
type sign struct{ task, kind string }

// signOf returns the name of a sign of life; false: the report is something else.
func signOf(r *api.TaskReport) (sign, bool) {
	return sign{r.Task, r.Kind}, r.Kind == api.TaskHeartbeat || r.Kind == api.TaskOutput
}

func newOutbox(tasks api.Tasks, answered func(*api.TaskReport, *api.TaskAnswer), log *slog.Logger) *outbox {
	return &outbox{
		tasks: tasks, answered: answered, log: log, signs: map[sign]*report{}, ready: make(chan struct{}, 1),
	}
}

// put adds a report. A sign of life replaces an earlier one that waits.
func (o *outbox) put(r api.TaskReport) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s, isSign := signOf(&r)
	if old := o.signs[s]; isSign && old != nil {
		if r.Details == nil {
			r.Details = old.Details
		}
		old.TaskReport = r
		return
	}
	o.add(&report{TaskReport: r})
}

// add adds a report. It is called with the lock held.
func (o *outbox) add(r *report) {
	if s, isSign := signOf(&r.TaskReport); isSign {
		o.signs[s] = r
	}
	o.waiting = append(o.waiting, r)
	o.wake()
}

// putBack adds reports that were not taken, before all others. A sign of life goes if there is a later one by now.
func (o *outbox) putBack(batch []*report) {
	o.mu.Lock()
	defer o.mu.Unlock()
	front := make([]*report, 0, len(batch)+len(o.waiting))
	for _, r := range batch {
		s, isSign := signOf(&r.TaskReport)
		if later := o.signs[s]; isSign && later != nil {
			if later.Details == nil {
				later.Details = r.Details
			}
			continue
		}
		if isSign {
			o.signs[s] = r
		}
		front = append(front, r)
	}
	o.waiting = append(front, o.waiting...)
	o.wake()
}

// finish lets run return when all reports were answered.
func (o *outbox) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finished = true
	o.wake()
}

func (o *outbox) wake() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// next takes the reports to send; over: there will be no more.
func (o *outbox) next() (batch []*report, over bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(len(o.waiting), maxTasks)
	batch, o.waiting = o.waiting[:n:n], o.waiting[n:]
	for _, r := range batch {
		if s, isSign := signOf(&r.TaskReport); isSign {
			delete(o.signs, s)
		}
	}
	return batch, o.finished && n == 0 && o.apart == 0
}

// run sends reports until finish was called and all are answered, or ctx is done.
func (o *outbox) run(ctx context.Context) {
	retry := time.Duration(0)
	for {
		batch, over := o.next()
		if over || ctx.Err() != nil {
			return
		}
		if len(batch) == 0 {
			select {
			case <-o.ready:
			case <-ctx.Done():
			}
			continue
		}
		answers, err := o.send(ctx, batch)
		if err != nil {
			if retry == 0 {
				o.log.Warn("the server takes no reports at present; sending them again", "error", err)
			}
			o.putBack(batch)
			retry = longer(retry)
			pause(ctx, retry)
			continue
		}
		if retry > 0 {
			o.log.Info("the server takes reports again")
		}
		retry = 0
		for i, r := range batch {
			o.done(r, &answers[i])
		}
	}
}

// send sends reports. If the server refuses to take them all at once, each is sent separately: one of them may be too
// large. An error means that the server has taken none, and may take them later.
func (o *outbox) send(ctx context.Context, batch []*report) ([]api.TaskAnswer, error) {
	plain := make([]api.TaskReport, len(batch))
	for i, r := range batch {
		plain[i] = r.TaskReport
	}
	answers, err := o.tasks.Report(ctx, plain)
	if err == nil || !unfit(api.CodeOf(err)) {
		return answers, err
	}
	answers = make([]api.TaskAnswer, len(batch))
	for i := range plain {
		if len(plain) > 1 && (err == nil || unfit(api.CodeOf(err))) {
			var one []api.TaskAnswer
			if one, err = o.tasks.Report(ctx, plain[i:i+1]); err == nil {
				answers[i] = one[0]
				continue
			}
		}
		answers[i].Error = asError(err)
		if isOver(answers[i].Error.Code) { // it is the request that the server does not know, not the attempt
			answers[i].Error.Code = api.CodeInternal
		}
	}
	return answers, nil
}

// unfit reports whether an error with that code means that the server never takes the report in this form.
func unfit(code api.Code) bool { return code == api.CodeInvalid || code == api.CodeTooLarge }

// done takes the answer to a report. A report that the server could not take now is repeated after a while; the others
// do not wait for it. In place of one that the server never takes, a smaller one is sent.
func (o *outbox) done(r *report, a *api.TaskAnswer) {
	switch {
	case a.Error == nil || isOver(a.Error.Code):
		o.answered(&r.TaskReport, a)
	case unfit(a.Error.Code) || r.Kind == api.TaskStopped && a.Error.Code == api.CodeConflict:
		o.log.Warn("the server has refused a report", "report", r.Kind, "error", a.Error)
		if other := instead(&r.TaskReport, a.Error); other != nil && !r.last {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.add(&report{TaskReport: *other, last: true})
		}
	default:
		o.repeat(r)
	}
}

// repeat sends a report again after a while.
func (o *outbox) repeat(r *report) {
	r.retry = longer(r.retry)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.apart++
	time.AfterFunc(part(r.retry), func() {
		o.mu.Lock()
		o.apart--
		o.mu.Unlock()
		o.putBack([]*report{r})
	})
}

// longestText is how much of a failure's text is sent again, in bytes, if the server has refused the failure.
const longestText = 1000

// instead returns the report to send in place of one that the server never takes, so that the attempt does not go on
// forever, or nil if there is none.
func instead(r *api.TaskReport, e *api.Error) *api.TaskReport {
	f := &policy.Failure{Kind: policy.KindFailed, Type: "report_refused", NonRetryable: true}
	switch r.Kind {
	case api.TaskHeartbeat:
		return &api.TaskReport{Task: r.Task, Kind: r.Kind} // perhaps its details were too large
	case api.TaskStopped: // nothing has told it to stop, and its work is gone
		f = &policy.Failure{Kind: policy.KindLost, Type: "stopped", Message: "its worker has stopped the work"}
	case api.TaskComplete, api.TaskFail:
		if e.Code == api.CodeTooLarge && r.Failure == nil {
			f.Type = "output_too_large" // as the engine calls it
		}
		f.Message = "the server has refused the report: " + e.Reason()
		if old := r.Failure; e.Code == api.CodeTooLarge && old != nil {
			f = &policy.Failure{
				Kind: old.Kind, Type: old.Type, Code: old.Code,
				NonRetryable: old.NonRetryable, RetryAfter: old.RetryAfter,
				Message: strings.ToValidUTF8(old.Message[:min(len(old.Message), longestText)], ""),
			}
		}
	default:
		return nil
	}
	return &api.TaskReport{Task: r.Task, Kind: api.TaskFail, Failure: f}
}
