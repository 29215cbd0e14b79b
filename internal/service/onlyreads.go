package service

import (
	"context"

	"github.com/pawl-dev/pawl/internal/api"
)

// onlyReads has the methods of a service that change something, for a read-only service. Each returns an error.
type onlyReads struct{}

// readOnly returns the error of a change.
func readOnly(what string) error {
	return &api.Error{Code: api.CodeReadOnly, Message: what + ": the database is open for reading only"}
}

// Start implements api.Service. It always returns an error.
func (onlyReads) Start(context.Context, api.StartRequest) (api.Started, error) {
	return api.Started{}, readOnly("start")
}

// Send implements api.Service. It always returns an error.
func (onlyReads) Send(context.Context, string, api.SendRequest) error { return readOnly("event send") }

// Operate implements api.Service. It always returns an error.
func (onlyReads) Operate(_ context.Context, _ string, op api.Operation) error {
	return readOnly(op.Operation)
}

// Restart implements api.Service. It always returns an error.
func (onlyReads) Restart(context.Context, string, api.RestartRequest) (api.Started, error) {
	return api.Started{}, readOnly("restart")
}

// Stats implements api.Service. It always returns an error, because the engine is in another process.
func (onlyReads) Stats(context.Context) (api.Stats, error) { return api.Stats{}, readOnly("stats") }
