package api

import "context"

// PruneRequest says which runs to remove.
type PruneRequest struct {
	OlderThan Duration `json:"olderThan"`        // runs that ended so long ago, or longer
	DryRun    bool     `json:"dryRun,omitempty"` // count, and remove nothing
}

// Pruned is what was removed.
type Pruned struct {
	Runs int `json:"runs"`
	Logs int `json:"logs"` // runs whose logs were removed; logs are only looked for beside a file
	// Artifacts are the runs whose files were removed.
	Artifacts int `json:"artifacts"`
}

// Pruner removes runs that have ended, with all that is kept of them.
type Pruner interface {
	// Prune removes runs and their logs. Errors: CodeInvalid.
	Prune(ctx context.Context, r PruneRequest) (Pruned, error)
}
