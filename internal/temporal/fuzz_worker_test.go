package temporal

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
)

// toldTask is a task as its worker got it, with the whole history.
type toldTask struct {
	*workflowservice.PollWorkflowTaskQueueResponse
	answered bool
}

// crowd is all who have to do with one run: workers that are late, answer twice, answer what is not theirs any more, or
// never, and clients. It knows what has to come true of what they were told.
type crowd struct {
	*bed
	rest    []byte // the script of all that they will do
	tasks   []*toldTask
	begun   int             // ids that were given to activities and timers
	open    []string        // attempts that workers have, by the ids of their activities
	done    map[string]bool // activities whose result was taken
	signals int             // events that were taken
}

// byte returns the next byte of the script, or zero.
func (c *crowd) byte() int {
	if len(c.rest) == 0 {
		return 0
	}
	n := c.rest[0]
	c.rest = c.rest[1:]
	return int(n)
}

// workerScripts are what workers and clients do in ways that have something to show.
var workerScripts = []string{
	"\x00\x11\x00\x05\x06\x00\xc1",                             // an activity
	"\x00\x03\xc1\x00\x11\x01\x09\x00\xc1",                     // an event during a task
	"\x00\x0a\x09\x11\x01\x09\x0a\x00\x0a\x09\xc1",             // answers after a crash
	"\x00\x29\x00\x02\x01\x11\x01\x01\x01",                     // a late answer, and one that comes twice
	"\x00\x11\x0c\x05\x07\x09\x05\x0a\x06\x05\x00",             // an attempt that fails, and one that outlives a crash
	"\x00\x0b\x00\x0b\x0f\x0f\x00\x0a\x09\x11\x01\x04\x00\x01", // tasks that fail
	"\x00\x11\x00\x05\x04\x00\x11\x02\x08\x0c\x00",             // an activity that is to stop
}

// FuzzWorkers lets workers and clients do anything in any order, while the engine goes away now and then. A history
// only grows, has no gaps, and is the same when it is folded again. An answer that is taken has the events that its
// worker has foreseen, behind those that it knew. What an activity has completed is not done again. No event is lost.
func FuzzWorkers(f *testing.F) {
	for _, seed := range workerScripts {
		f.Add([]byte(seed))
	}
	f.Fuzz(playWorkers)
}

// TestWorkers plays scripts of FuzzWorkers.
func TestWorkers(t *testing.T) {
	for _, script := range workerScripts {
		t.Run(fmt.Sprintf("%x", script), func(t *testing.T) { playWorkers(t, []byte(script)) })
	}
}

// playWorkers lets workers and clients do what a script says.
func playWorkers(t *testing.T, script []byte) {
	bubble(t, func(b *bed) {
		c := &crowd{bed: b, rest: script[:min(len(script), 80)], done: map[string]bool{}}
		if err := b.start(options{}); err != nil {
			b.Fatal(err)
		}
		for len(c.rest) > 0 {
			c.step(c.byte())
			b.history()
		}
		b.act([]string{"terminate"})
		c.settled()
	})
}

// step lets one of them do something.
func (c *crowd) step(n int) {
	c.Helper()
	more := n / 16
	switch n % 16 {
	case 0:
		c.take()
	case 1:
		if n := len(c.tasks); n > 0 {
			c.answerTask(c.tasks[n-1], more)
		}
	case 2:
		if n := len(c.tasks); n > 0 {
			c.answerTask(c.tasks[(n-1)-more%n], 1)
		}
	case 3:
		if c.act([]string{"signal", "go"}) == "" {
			c.signals++
		}
	case 4:
		c.act([]string{"cancel"})
	case 5:
		c.work()
	case 6, 7, 8, 12:
		c.report(n%16, more)
	case 9:
		c.act([]string{"after", fmt.Sprintf("%ds", 1+5*more)})
	case 10:
		c.act([]string{"crash"})
	case 11:
		c.act([]string{"refuse"})
	case 13:
		c.act([]string{"operate", "pause"})
	case 14:
		c.act([]string{"operate", "resume"})
	default:
		c.act([]string{"after", "10ms"})
	}
}

// take asks for a task. What it tells has to be what everybody was shown before, and more.
func (c *crowd) take() {
	c.Helper()
	had := c.task
	c.takeTask(options{})
	if c.task == had {
		return
	}
	for i, e := range c.task.History.Events[:min(len(c.known), len(c.task.History.Events))] {
		if text := encoded(c.T, e); e.EventId != int64(i)+1 || !bytes.Equal(text, c.known[i]) {
			c.Fatalf("event %d was shown otherwise before: now %s", i+1, e)
		}
	}
	c.tasks = append(c.tasks, &toldTask{PollWorkflowTaskQueueResponse: c.task})
}

// wishes returns commands, and which events they have to become.
func (c *crowd) wishes(many int) (commands []string, become []enumspb.EventType) {
	for range many % 4 {
		c.begun++
		id := c.begun
		switch n := c.byte(); n % 4 {
		case 0:
			commands = append(commands, fmt.Sprintf("activity a%d attempt=5s beat=3s retry=%d", id, n/4%4))
			become = append(become, enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
		case 1:
			commands = append(commands, fmt.Sprintf("timer t%d %ds", id, 1+n/4))
			become = append(become, enumspb.EVENT_TYPE_TIMER_STARTED)
		case 2:
			commands = append(commands, fmt.Sprintf("cancel-activity %d", 5+n/4%8))
			become = append(become, enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED)
		default:
			commands = append(commands, fmt.Sprintf("cancel-timer t%d", 1+n/4%8))
			become = append(become, enumspb.EVENT_TYPE_TIMER_CANCELED)
		}
	}
	return commands, become
}

// answerTask answers a task. If the answer is taken, its events stand where its worker has foreseen them.
func (c *crowd) answerTask(task *toldTask, many int) {
	c.Helper()
	commands, become := c.wishes(many)
	if many >= 14 {
		commands = append(commands, "complete")
	}
	c.task = task.PollWorkflowTaskQueueResponse
	if c.act(words("answer "+strings.Join(commands, " ; "))) != "" {
		return
	}
	if task.answered {
		c.Fatal("a task is answered twice")
	}
	task.answered = true
	events := c.history()
	for i, e := range task.History.Events {
		if !bytes.Equal(encoded(c.T, e), encoded(c.T, events[i])) {
			c.Fatalf("the worker knew event %d as %s, and it is %s", i+1, e, events[i])
		}
	}
	for i, kind := range append([]enumspb.EventType{enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED}, become...) {
		if e := events[int(task.StartedEventId)+i]; e.EventType != kind {
			c.Fatalf("event %d is %s, and its worker has foreseen %s", e.EventId, e.EventType, kind)
		}
	}
}

// work asks for an attempt of an activity.
func (c *crowd) work() {
	c.Helper()
	id, is := strings.CutPrefix(c.act([]string{"work"}), "work: a")
	if !is {
		return
	}
	id, _, _ = strings.Cut("a"+id, " ")
	if c.done[id] {
		c.Fatalf("activity %s has completed, and is to be done again", id)
	}
	c.open = append(c.open, id)
}

// report tells something of an attempt that was given out, which may have ended.
func (c *crowd) report(what, more int) {
	c.Helper()
	if len(c.open) == 0 {
		return
	}
	id := c.open[more%len(c.open)]
	switch what {
	case 6:
		if c.act([]string{"done", id}) != "" {
			return
		}
		if c.done[id] {
			c.Fatalf("activity %s has completed twice", id)
		}
		c.done[id] = true
	case 7:
		c.act([]string{"broken", id})
	case 8:
		c.act([]string{"beat", id})
	default:
		c.act([]string{"stopped", id})
	}
}

// settled checks the history of a run that has ended: its last event says so, and what was promised is there.
func (c *crowd) settled() {
	c.Helper()
	events := c.history()
	signals, completed := 0, map[int64]int{}
	for i, e := range events {
		closes := closing(e)
		if closes != (i == len(events)-1) {
			c.Errorf("event %d of %d is %s", i+1, len(events), e.EventType)
		}
		if e.EventType == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED {
			signals++
		}
		if a := e.GetActivityTaskCompletedEventAttributes(); a != nil {
			completed[a.ScheduledEventId]++
		}
	}
	if signals != c.signals {
		c.Errorf("%d events were sent, and the history has %d", c.signals, signals)
	}
	for scheduled, n := range completed {
		if n != 1 {
			c.Errorf("activity %d has completed %d times", scheduled, n)
		}
	}
	if len(completed) != len(c.done) {
		c.Errorf("%d results were taken, and the history has %d", len(c.done), len(completed))
	}
}

func closing(e *historypb.HistoryEvent) bool {
	switch e.EventType {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
		return true
	default:
		return false
	}
}
