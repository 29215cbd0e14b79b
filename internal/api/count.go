package api

// MostCounted is how many runs of a phase are counted at most.
const MostCounted = 1000

// Count is how many runs of a query are in a phase.
type Count struct {
	Phase RunPhase `json:"phase"`
	Runs  int      `json:"runs"`
	More  bool     `json:"more,omitempty" doc:"There are more: up to 1000 are counted, and fewer if it takes long."`
}
