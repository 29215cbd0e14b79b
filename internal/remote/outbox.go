package remote

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// outbox sends a worker's reports in the order in which they came, as many at once as there are. A report is kept until
// the server has answered it.
type outbox struct {
	tasks    api.Tasks
	answered func(r *api.TaskReport, a *api.TaskAnswer)
	log      *slog.Logger

	mu       sync.Mutex
	reports  []api.TaskReport
	finished bool          // no more reports come
	ready    chan struct{} // holds a value while there may be reports
}

func newOutbox(tasks api.Tasks, answered func(*api.TaskReport, *api.TaskAnswer), log *slog.Logger) *outbox {
	return &outbox{tasks: tasks, answered: answered, log: log, ready: make(chan struct{}, 1)}
}

// put adds a report.
func (o *outbox) put(r api.TaskReport) {
	o.mu.Lock()
	o.reports = append(o.reports, r)
	o.mu.Unlock()
	o.wake()
}

// finish lets run return when all reports were answered.
func (o *outbox) finish() {
	o.mu.Lock()
	o.finished = true
	o.mu.Unlock()
	o.wake()
}

func (o *outbox) wake() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// next returns the reports to send; over: there will be none any more.
func (o *outbox) next() (batch []api.TaskReport, over bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.reports[:min(len(o.reports), maxTasks)], o.finished && len(o.reports) == 0
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
		answers, err := o.tasks.Report(ctx, batch)
		if err != nil && temporary(err) {
			if retry == 0 {
				o.log.Warn("the server takes no reports at present; sending them again", "error", err)
			}
			retry = min(max(2*retry, firstRetry), lastRetry)
			pause(ctx, retry)
			continue
		}
		retry = 0
		if err != nil {
			answers = o.oneByOne(ctx, batch, err)
		}
		if !o.done(batch, answers) {
			pause(ctx, firstRetry)
		}
	}
}

// oneByOne sends reports by themselves, of which the server has refused to take all at once: one of them may be too
// large.
func (o *outbox) oneByOne(ctx context.Context, batch []api.TaskReport, err error) []api.TaskAnswer {
	answers := make([]api.TaskAnswer, len(batch))
	for i := range batch {
		if len(batch) > 1 {
			var one []api.TaskAnswer
			if one, err = o.tasks.Report(ctx, batch[i:i+1]); err == nil {
				answers[i] = one[0]
				continue
			}
		}
		answers[i].Error = asError(err)
	}
	return answers
}

// done drops reports that were answered. Those that the server could not take now are sent again; then it returns
// false.
func (o *outbox) done(batch []api.TaskReport, answers []api.TaskAnswer) bool {
	var again []api.TaskReport
	for i := range batch {
		if e := answers[i].Error; e != nil && (e.Code == api.CodeClosed || e.Code == api.CodeStalled ||
			e.Code == api.CodeUncertain || e.Code == api.CodeFenced) {
			again = append(again, batch[i])
			continue
		}
		o.answered(&batch[i], &answers[i])
	}
	o.mu.Lock()
	o.reports = append(again, o.reports[len(batch):]...)
	o.mu.Unlock()
	return len(again) == 0
}
