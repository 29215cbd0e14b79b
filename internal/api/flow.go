package api

import (
	"context"
	"encoding/json"
)

// Flow is a flow that can be started by its name: a file of the server's folder, or a version that was applied.
type Flow struct {
	Name       string          `json:"name"`
	Version    int             `json:"version,omitempty" doc:"Version of a flow that was applied, from 1."`
	File       string          `json:"file,omitempty" doc:"File from which it was read."`
	Definition string          `json:"definition,omitempty" doc:"The id of its definition."`
	Problem    string          `json:"problem,omitempty" doc:"Reason why it cannot be started."`
	AppliedAt  Time            `json:"appliedAt,omitzero"`
	Actor      string          `json:"actor,omitempty" doc:"Person or program that applied it."`
	Reason     string          `json:"reason,omitempty"`
	Kind       string          `json:"kind,omitempty" doc:"Kind of the definition."`
	Source     string          `json:"source,omitempty" doc:"Its definition as it is stored. Lists leave it out."`
	Input      json.RawMessage `json:"input,omitempty" doc:"The JSON Schema of its input. Lists leave it out."`
	New        bool            `json:"new,omitempty" doc:"Set if it was applied just now."`
	Schedule   string          `json:"schedule,omitempty"` // when it fires, for people, if it has a cron and is applied
}

// ApplyRequest makes a definition the newest version of the flow with its name.
type ApplyRequest struct {
	Definition Definition
	Actor      string
	Reason     string
}

// Catalog keeps flows by their names, with all their versions. Versions are never changed. Its methods are safe for
// concurrent use.
type Catalog interface {
	// Apply makes a definition the newest version. One that is the newest already stays so, and nothing changes.
	// Errors: CodeInvalid, CodeConflict (the server's folder has a flow with this name).
	Apply(ctx context.Context, r ApplyRequest) (Flow, error)
	// Flows lists the newest version of each flow, and the files of the server's folder, by name.
	Flows(ctx context.Context) ([]Flow, error)
	// Versions lists the versions of a flow, the newest first. Errors: CodeNotFound.
	Versions(ctx context.Context, name string) ([]Flow, error)
	// Flow returns a version with its source; 0: the newest. Errors: CodeNotFound.
	Flow(ctx context.Context, name string, version int) (Flow, error)
}
