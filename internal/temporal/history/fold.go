package history

import (
	"math"

	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pawl-dev/pawl/internal/core"
)

// Event is an event of the history.
type Event = historypb.HistoryEvent

// Fold is the history of one run up to an entry.
type Fold struct {
	Beginning

	Entries int // how many were folded
	Turns   int // answers among them
	Status  enumspb.WorkflowExecutionStatus
	Closed  core.Time  // when the run has ended; zero: it has not
	Next    core.RunID // the chain's next run; zero: none
	// Cancelled: somebody has asked the run to cancel.
	Cancelled bool
	// Asked is the id of the event with which the last task began that was answered; zero: none was.
	Asked int64
	// Completed is the id of the event that says so.
	Completed int64

	memo      *commonpb.Memo             // nil: that of the start
	search    *commonpb.SearchAttributes // likewise
	events    eventLog
	tail      []item // events since the last answer
	due       due
	steps     []*Begun
	at        core.Time               // the instant of the entry that is folded
	began     []core.StepBegan        // the steps of the entry's answer that were not told yet
	dropped   bool                    // the worker has cancelled a timer that had fired
	ends      bool                    // the entry ends the run: what ends with it is not told
	close     *core.RunClosing        // the outcome, once it is settled
	closed    *commandpb.Command      // the command that has settled it; nil: none
	terminate *core.Operated          // the operation that has terminated the run; nil: none has
	begun     bool                    // it does not wait for its start any more
	size      int                     // the size of the events in bytes
	updates   map[string]*KnownUpdate // those that were accepted or admitted, by their ids
	settled   int                     // how many of them have an outcome
	paused    bool                    // an operator has paused it
	turns     []Turn                  // the tasks that were answered
	origin    core.RunID              // the run that this one comes from in the end: itself, unless it was reset
	// reset says that the run was reset, the last time; nil: it was not.
	reset *historypb.WorkflowTaskFailedEventAttributes
}

// item is something that has happened: one event, or two of an activity that has ended.
type item struct {
	entry  int
	step   core.StepID
	events []*Event
	began  *Event // the event with which that began whose end the last event tells; nil: it is the first of two
}

// due is the workflow task that the run's worker has to be given.
type due struct {
	is      bool
	entry   int // the entry that has made it due
	after   int // the number of items before its event; hidden: it is told when it is answered
	at      core.Time
	attempt int32
}

// hidden is the place of the event of a task that follows one that failed: it is told if it is answered.
const hidden = -1

// New returns the history of a run of which nothing is known yet.
func New(run core.RunID) *Fold { return &Fold{Beginning: Beginning{Run: run}} }

// Due reports whether the run's worker has something to hear, and which attempt it is to tell it.
func (f *Fold) Due() (attempt int32, isDue bool) { return f.due.attempt, f.due.is && f.Closed == 0 }

// Begun reports whether the run does not wait for its start any more.
func (f *Fold) Begun() bool { return f.begun }

// Paused reports whether an operator has paused the run.
func (f *Fold) Paused() bool { return f.paused }

// Len returns how many events there are, and their size in bytes, about.
func (f *Fold) Len() (events, size int) {
	n := f.events.len()
	for _, it := range f.tail {
		n += len(it.events)
	}
	if f.due.is && f.due.after != hidden {
		n++
	}
	return n, f.size
}

// News returns the number of the last entry that brought an event which no answer has heard of; zero: none did.
func (f *Fold) News() int {
	last := 0
	if f.due.is && f.due.after != hidden {
		last = f.due.entry
	}
	if len(f.tail) > 0 {
		last = max(last, f.tail[len(f.tail)-1].entry)
	}
	return last
}

// Add folds the run's next entry.
func (f *Fold) Add(e core.Entry) {
	f.Entries++
	f.at = e.At
	f.ends, f.began = false, f.began[:0]
	for _, rec := range e.Records {
		switch rec := rec.(type) {
		case core.RunClosing, core.RunEnded:
			f.ends = true
		case core.StepBegan:
			f.began = append(f.began, rec)
		default:
		}
	}
	for _, rec := range e.Records {
		f.record(rec)
	}
}

// Final returns how many events have ids that are final.
func (f *Fold) Final() int { return f.events.len() }

// Rest gives memory back that a run which nobody uses can do without. What is asked for again is read again.
func (f *Fold) Rest() {
	f.start, f.began = nil, nil
	if f.reset == nil { // another reset changes its event
		f.events.pack()
	}
}

// add adds an event whose id is final.
func (f *Fold) add(e *Event) *Event {
	f.events.add(e)
	f.size += proto.Size(e)
	return e
}

// event returns an event without an id.
func event(kind enumspb.EventType, at core.Time) *Event {
	return &Event{EventType: kind, EventTime: stamp(at)}
}

func stamp(at core.Time) *timestamppb.Timestamp { return timestamppb.New(at.Std()) }

// happened tells what has happened to the run, and that its worker has to hear of it.
func (f *Fold) happened(step core.StepID, events ...*Event) { f.tell(item{step: step, events: events}) }

func (f *Fold) tell(it item) {
	it.entry = f.Entries
	f.tail = append(f.tail, it)
	if !f.begun {
		return // it hears of that when it begins
	}
	if !f.due.is || f.due.after == hidden {
		f.need(len(f.tail))
	}
}

// need notes that a task is due whose event stands behind some items.
func (f *Fold) need(after int) {
	f.due = due{is: true, entry: f.Entries, after: after, at: f.at, attempt: 1}
}

// settle makes final the ids of what a worker knew. It reports the event of its task; nil: that is not told yet.
func (f *Fold) settle(seen int) (scheduled *Event) {
	n := 0
	for ; ; n++ {
		if f.due.is && f.due.after == n {
			scheduled = f.add(f.scheduled())
		}
		if n == len(f.tail) || f.tail[n].entry > seen {
			break
		}
		it := &f.tail[n]
		for i, e := range it.events {
			switch {
			case it.began != nil:
				link(e, it.began.EventId)
			case i > 0:
				link(e, it.events[0].EventId)
			}
			f.add(e)
		}
	}
	f.tail = f.tail[n:]
	return scheduled
}

// link tells the end of an activity, or of a child workflow, which event its start is.
func link(e *Event, id int64) {
	switch a := e.Attributes.(type) {
	case *historypb.HistoryEvent_ActivityTaskCompletedEventAttributes:
		a.ActivityTaskCompletedEventAttributes.StartedEventId = id
	case *historypb.HistoryEvent_ActivityTaskFailedEventAttributes:
		a.ActivityTaskFailedEventAttributes.StartedEventId = id
	case *historypb.HistoryEvent_ActivityTaskTimedOutEventAttributes:
		a.ActivityTaskTimedOutEventAttributes.StartedEventId = id
	case *historypb.HistoryEvent_ActivityTaskCanceledEventAttributes:
		a.ActivityTaskCanceledEventAttributes.StartedEventId = id
	default:
		linkChild(e, id)
	}
}

// scheduled returns the event of the task that is due.
func (f *Fold) scheduled() *Event {
	e := event(enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, f.due.at)
	e.Attributes = &historypb.HistoryEvent_WorkflowTaskScheduledEventAttributes{
		WorkflowTaskScheduledEventAttributes: &historypb.WorkflowTaskScheduledEventAttributes{
			TaskQueue: f.Start().GetTaskQueue(), StartToCloseTimeout: durationpb.New(f.TaskTimeout()),
			Attempt: f.due.attempt,
		},
	}
	return e
}

// View returns the events up to an entry. They must not be changed.
func (f *Fold) View(seen int) []*Event { return f.Page(0, math.MaxInt, seen) }

// Page returns the events up to an entry without the first n, and may stop after most of them. Events must not be
// changed.
func (f *Fold) Page(n, most, seen int) []*Event {
	if most < f.events.len()-n {
		return f.events.behind(n, most)
	}
	without := min(n, f.events.len())
	out := f.events.behind(without, math.MaxInt)
	place := func(e *Event) {
		e.EventId = int64(without+len(out)) + 1
		e.TaskId = e.EventId
		out = append(out, e)
	}
	began := map[*Event]int64{} // the ids of the events of the tail with which something began
	for i := 0; ; i++ {
		if f.due.is && f.due.after == i && f.due.entry <= seen {
			place(f.scheduled())
		}
		if i == len(f.tail) || f.tail[i].entry > seen {
			return out[min(n-without, len(out)):]
		}
		it := &f.tail[i]
		first := int64(without+len(out)) + 1
		for j, e := range it.events {
			own := proto.Clone(e).(*Event)
			place(own)
			switch {
			case it.began != nil:
				link(own, max(it.began.EventId, began[it.began]))
			case j > 0:
				link(own, first)
			default:
				began[e] = own.EventId
			}
		}
	}
}

// Task is what a worker is given.
type Task struct {
	Events  []*Event // those that it does not know
	Started int64    // the id of the event with which the task begins
}

// Task returns the history up to an entry, as a worker gets it that knows the first events, whose ids are final.
func (f *Fold) Task(seen, known int, began core.Time, identity string, attempt int32) Task {
	events := f.Page(known, math.MaxInt, seen)
	final, last := f.events.len()-known, int64(0)
	for i := final; i < len(events); i++ {
		if events[i].EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED {
			last = events[i].EventId
		}
	}
	if last == 0 { // its event is told when the task is answered
		e := f.scheduled()
		e.EventTime = stamp(began)
		e.GetWorkflowTaskScheduledEventAttributes().Attempt = attempt
		e.EventId = int64(known+len(events)) + 1
		e.TaskId, last = e.EventId, e.EventId
		events = append(events, e)
	}
	size := f.size
	for _, e := range events[final:] {
		size += proto.Size(e)
	}
	e := f.startedTask(last, began, identity, size)
	e.EventId = int64(known+len(events)) + 1
	e.TaskId = e.EventId
	return Task{append(events, e), e.EventId}
}

// startedTask returns the event with which a worker has begun a task.
func (f *Fold) startedTask(scheduled int64, at core.Time, identity string, size int) *Event {
	e := event(enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED, at)
	e.Attributes = &historypb.HistoryEvent_WorkflowTaskStartedEventAttributes{
		WorkflowTaskStartedEventAttributes: &historypb.WorkflowTaskStartedEventAttributes{
			ScheduledEventId: scheduled, Identity: identity, RequestId: f.origin.String(),
			HistorySizeBytes: int64(size),
		},
	}
	return e
}
