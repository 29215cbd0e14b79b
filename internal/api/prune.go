package api

import "context"

// PruneRequest specifies which runs to remove.
type PruneRequest struct {
	OlderThan Duration `json:"olderThan"`        // runs that ended so long ago, or longer
	DryRun    bool     `json:"dryRun,omitempty"` // count, and remove nothing
}

// Pruned is the result of removing runs.
type Pruned struct {
	Runs int `json:"runs"`
	Logs int `json:"logs"` // runs whose logs were removed; logs are only looked for beside a file
	// Artifacts are the runs whose files were removed.
	Artifacts int `json:"artifacts"`
}

// Pruner removes runs that have ended, with all their data.
type Pruner interface {
	// Prune removes runs and their logs. Errors: CodeInvalid.
	Prune(ctx context.Context, r PruneRequest) (Pruned, error)
}
