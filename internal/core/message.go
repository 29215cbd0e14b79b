package core

// Message is an action of one run on another. Between runs of one partition it happens in the batch of its cause.
// Between partitions it is journaled with its cause and received later, once: so it contains everything that the
// receiver needs.
type Message struct {
	To      RunID  // the run it is for; zero: Name says it
	Name    string // the workflow id of the open run that it is for
	At      Time   // when it was sent
	Content Content
}

// Content is the action of a message on its run. Three inputs are contents as they are: ChildEnded and TaskStopped, for
// a child's parent, and SignalReceived.
//
//sumtype:decl
type Content interface{ content() }

type (
	// ChildStart starts a child run. If the run exists already, its parent is told of its end, if it has ended.
	ChildStart struct {
		Definition DefinitionID // stored by now
		Workflow   string
		Input      []byte
		Execution  RunLimit
		Parent     Parent
		Queue      RunQueue // the queue; without a name: the definition's
		Within     []string // see Admission
		Headers    Headers  // the parent run's headers
	}

	// ChildStop applies Op to a child run, if its parent-close policy allows that.
	ChildStop struct{ Op Op }

	// ChildBound changes the deadline that a child run has from its parent, from one instant to another; zero if there
	// is none.
	ChildBound struct{ Was, Is Time }

	// ChildAsk makes a child run that has ended tell its parent again.
	ChildAsk struct{}

	// KeyedStart starts the run for which the partition of an idempotency key has claimed that key. Its definition is
	// stored by now. It has nothing of an earlier run, and of the run's chain no more than AfterFailure.
	KeyedStart struct {
		Start
		Use bool // a run that is open with the workflow id is as good
	}

	// KeyedStarted tells the partition of an idempotency key the result of a KeyedStart.
	KeyedStarted struct {
		Workflow, Key string
		Claimed       RunID // the run that the key was claimed for
		Run           RunID // Claimed, or one that was open before; zero: Refusal says why
		Refusal       Refusal
	}
)

// Refusal is the reason, for the caller, why a start was refused.
type Refusal struct{ Code, ID, Message, Hint string }

func (ChildStart) content()     {}
func (ChildStop) content()      {}
func (ChildBound) content()     {}
func (ChildAsk) content()       {}
func (KeyedStart) content()     {}
func (KeyedStarted) content()   {}
func (ChildEnded) content()     {}
func (TaskStopped) content()    {}
func (SignalReceived) content() {}

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
