package api

import (
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// BodyDecision is one message of a process to a server.
type BodyDecision struct {
	// Kind is decide, report, confirm, begin, consult, end, refuse, problem, leave or gone.
	Kind    string       `json:"kind"`
	Run     string       `json:"run,omitzero"`
	Lease   uint64       `json:"lease,omitzero"`
	Inputs  []BodyInput  `json:"inputs,omitzero"`  // the inputs, for decide, report and confirm
	Step    uint32       `json:"step,omitzero"`    // the step, for begin
	Seen    int          `json:"seen,omitzero"`    // how many news and updates of the lease have come, for end
	Text    string       `json:"text,omitzero"`    // the text, for problem
	Update  *BodyUpdate  `json:"update,omitzero"`  // the update, for refuse
	Failure *BodyFailure `json:"failure,omitzero"` // the failure, for refuse
}

// BodyInput is one of these.
type BodyInput struct {
	Commands *BodyCommands `json:"commands,omitzero"`
	Ended    *BodyEnded    `json:"ended,omitzero"`
	Stopped  *BodyStopped  `json:"stopped,omitzero"`
	Beat     *BodyBeat     `json:"beat,omitzero"`
}

// BodyCommands are a body's decisions.
type BodyCommands struct {
	Commands []BodyCommand `json:"commands,omitzero"`
	Waits    bool          `json:"waits,omitzero"`
	Closed   int           `json:"closed,omitzero"`
	Stopping bool          `json:"stopping,omitzero"`
	// Seen are the steps whose ends the body has seen since its last decisions, in order, and Ends the rank of the last
	// one.
	Seen []uint32 `json:"seen,omitzero"`
	Ends uint32   `json:"ends,omitzero"`
}

// BodyEnded reports that an attempt has ended.
type BodyEnded struct {
	Step    uint32       `json:"step"`
	Attempt int          `json:"attempt"`
	Output  []byte       `json:"output,omitzero"`
	Failure *BodyFailure `json:"failure,omitzero"`
	Details []byte       `json:"details,omitzero"`
}

// BodyStopped reports that the work of an attempt which had ended before is gone.
type BodyStopped struct {
	Step      uint32 `json:"step"`
	Attempt   int    `json:"attempt"`
	Abandoned bool   `json:"abandoned,omitzero"`
	Killed    bool   `json:"killed,omitzero"`
}

// BodyBeat is a sign of life of an attempt.
type BodyBeat struct {
	Step    uint32      `json:"step"`
	Attempt int         `json:"attempt"`
	At      policy.Time `json:"at,omitzero"`
	Output  bool        `json:"output,omitzero"`
	Details []byte      `json:"details,omitzero"`
}

// BodyCommand is one of these.
type BodyCommand struct {
	Schedule *BodySchedule     `json:"schedule,omitzero"`
	Mark     *BodyMark         `json:"mark,omitzero"`
	Cancel   *BodyCancel       `json:"cancel,omitzero"`
	Publish  *BodyPublish      `json:"publish,omitzero"`
	Accept   *BodyAccept       `json:"accept,omitzero"`
	Answer   *BodyAnswerUpdate `json:"answer,omitzero"`
	Close    *BodyClose        `json:"close,omitzero"`
}

// BodyCauses are what a decision follows from.
type BodyCauses struct {
	Saw   []string `json:"saw,omitzero"`
	After []string `json:"after,omitzero"`
}

// BodySchedule begins a step.
type BodySchedule struct {
	Spec    *BodyStepSpec `json:"spec,omitzero"`
	Item    int32         `json:"item"`
	Group   uint32        `json:"group"`
	Until   policy.Time   `json:"until,omitzero"`
	For     time.Duration `json:"for,omitzero,format:nano"`
	Key     string        `json:"key,omitzero"`
	Failure *BodyFailure  `json:"failure,omitzero"`
	Policy  *BodyPolicy   `json:"policy,omitzero"` // the policy that replaces that of the step
	BodyCauses
}

// BodyMark records a step that has its result already.
type BodyMark struct {
	Spec   *BodyStepSpec     `json:"spec,omitzero"`
	Output []byte            `json:"output,omitzero"`
	Labels map[string]string `json:"labels,omitzero"`
	BodyCauses
}

// BodyCancel ends an open step.
type BodyCancel struct {
	Key string `json:"key"`
	Ask bool   `json:"ask,omitzero" doc:"Work that runs is asked to stop, and the step ends when it does."`
}

// BodyPublish shows a value to the readers of the run.
type BodyPublish struct {
	Branch string `json:"branch,omitzero"`
	After  string `json:"after,omitzero"`
	Count  int    `json:"count,omitzero"`
	Value  []byte `json:"value,omitzero"`
}

// BodyAccept makes an open wait take an update.
type BodyAccept struct {
	Key     string `json:"key"`
	Name    string `json:"name"`
	ID      string `json:"id"`
	Payload []byte `json:"payload,omitzero"`
}

// BodyAnswerUpdate answers an update.
type BodyAnswerUpdate struct {
	Spec    *BodyStepSpec `json:"spec,omitzero"`
	Name    string        `json:"name"`
	ID      string        `json:"id"`
	Output  []byte        `json:"output,omitzero"`
	Failure *BodyFailure  `json:"failure,omitzero"`
	BodyCauses
}

// BodyClose settles the outcome of a run.
type BodyClose struct {
	Phase   string       `json:"phase"`
	Output  []byte       `json:"output,omitzero"`
	Failure *BodyFailure `json:"failure,omitzero"`
	From    []string     `json:"from,omitzero"`
}
