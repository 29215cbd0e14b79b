package core

// Reuse says what becomes of the start of a child run whose workflow id is or was that of another run.
type Reuse uint8

// The policies for workflow ids. An open run is in the way of all of them but the last.
const (
	ReuseAny       Reuse = iota // the id of any run that has ended may be used again
	ReuseFailed                 // that of a run that has not succeeded
	ReuseNever                  // none
	ReuseTerminate              // any one; an open run is terminated
)

// TypeIDInUse is the type of the failure of a child run that was not started because of its workflow id.
const TypeIDInUse = "workflow_id_in_use"

// TypeNotDelivered is the type of the failure of a send to a run that is not there or has ended, and TypeFull that of
// one to a run which keeps too many events already.
const (
	TypeNotDelivered = "not_delivered"
	TypeFull         = "full"
)

// Message is what one run does to another. Between runs of one partition it happens in the batch of its cause. Between
// partitions it is journaled with its cause and taken later, once: so it says all that the receiver has to know.
type Message struct {
	To      RunID  // the run it is for; zero: Name says it
	Name    string // the workflow id of the open run that it is for
	At      Time   // when it was sent
	Content Content
}

// Content is what a message does to the run it is for. Some inputs are contents as they are: ChildEnded, ChildBegan and
// TaskStopped, for a child's parent, SendEnded, for the sender of a Sent, and SignalReceived.
//
//sumtype:decl
type Content interface{ content() }

type (
	// ChildStart starts a child run. If the run exists already, its parent is told of its end, if it has ended.
	//
	//content:1
	ChildStart struct {
		Definition DefinitionID // stored by now
		Workflow   string
		Input      []byte
		Execution  RunLimit
		Parent     Parent
		Queue      RunQueue // the queue; without a name: the definition's
		Within     []string // see Admission
		Headers    Headers  // the parent run's headers
		WorkflowID string   // the workflow id of the child; empty: it has none
		Reuse      Reuse    // the meaning of another run of that workflow id
		Tells      bool     // its parent is told when it is there
	}

	// Sent gives a run an event, or asks it to cancel, for a step of another run. That one learns what happened to it.
	//
	//content:13
	Sent struct {
		From       RunID // the run that sends
		Step       StepID
		Run        RunID  // the run that it is for, or for a child of From the first run of its chain; zero: any
		WorkflowID string // the workflow id of that run
		OfChild    bool   // the run has to be a child of From: that of a step, or if Run is zero one with that parent
		Cancel     bool   // it asks to cancel; else it is an event:
		Name, ID   string // as of SignalReceived
		Payload    []byte
		Actor      string
		Reason     string
	}

	// ChildStop applies Op to a child run, if its parent-close policy allows that.
	//
	//content:2
	ChildStop struct{ Op Op }

	// ChildBound changes the deadline that a child run has from its parent, from one instant to another; zero if there
	// is none.
	//
	//content:3
	ChildBound struct{ Was, Is Time }

	// ChildAsk makes a child run that has ended tell its parent again.
	//
	//content:4
	ChildAsk struct{}

	// KeyedStart starts the run for which the partition of an idempotency key has claimed that key. Its definition is
	// stored by now. It has nothing of an earlier run, and of the run's chain no more than AfterFailure.
	//
	//content:10
	KeyedStart struct {
		Start
		Use bool // a run that is open with the workflow id is as good
	}

	// KeyedStarted tells the partition of an idempotency key the result of a KeyedStart.
	//
	//content:11
	KeyedStarted struct {
		Workflow, Key string
		Claimed       RunID // the run that the key was claimed for
		Run           RunID // Claimed, or one that was open before; zero: Refusal says why
		Refusal       Refusal
	}
)

// Refusal is the reason, for the caller, why a start was refused.
type Refusal struct{ Code, ID, Message, Hint string }

// PartitionKey returns the key of the partition that the message is for.
func (m *Message) PartitionKey() uint16 {
	if answer, ok := m.Content.(KeyedStarted); ok {
		return KeyOfKey(answer.Workflow, answer.Key)
	}
	if m.To == (RunID{}) {
		return KeyOfWorkflowID(m.Name)
	}
	return PartitionKey(m.To)
}
