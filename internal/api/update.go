package api

import (
	"context"
	"encoding/json"

	"github.com/pawl-dev/pawl/policy"
)

// Update is a request to a run, which its body answers.
type Update struct {
	Name    string          `json:"name"`
	ID      string          `json:"id,omitempty"` // the sender's: one with the same name and id is a repetition
	Payload json.RawMessage `json:"payload,omitempty"`
}

// Answer is a run's answer to an update.
type Answer struct {
	Run     string          `json:"run,omitempty"`
	Output  json.RawMessage `json:"output,omitempty"`
	Failure *policy.Failure `json:"failure,omitempty"`
	Refused bool            `json:"refused,omitempty"` // the body did not accept it; nothing is recorded of it
	Open    string          `json:"open,omitempty"`    // why there is no answer yet: send it again with the same id
}

// Node is another node of a cluster.
type Node interface {
	Service
	Updates
}

// Updates sends updates to the bodies of runs.
type Updates interface {
	// Update sends an update to a run and waits for the answer. Errors: CodeNotFound, CodeRunClosed, CodeConflict (the
	// run is paused), CodeInvalid.
	Update(ctx context.Context, run string, u Update) (Answer, error)
}
