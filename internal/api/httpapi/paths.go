package httpapi

import (
	"net/url"
	"strings"

	"github.com/pawl-dev/pawl/internal/api"
)

// Base is where the API begins.
const Base = "/api/v1"

// Action is an operation that has a path: POST /runs/{run}/pause, POST /runs/{run}/steps/{step}/skip.
type Action struct {
	Path      string // the last part of its path
	Operation string // api.OpCancelGracefully, …
	Step      bool   // it concerns a step
	Summary   string
}

// Actions returns all operations.
func Actions() []Action {
	return []Action{
		{"cancel", api.OpCancel, false, "Cancel a run: its attempts are told to stop, nothing new starts"},
		{"cancel-gracefully", api.OpCancelGracefully, false, "Cancel a run and let its attempts finish"},
		{"terminate", api.OpTerminate, false, "Close a run at once"},
		{"pause", api.OpPause, false, "Pause a run: nothing new starts"},
		{"resume", api.OpResume, false, "Resume a paused run"},
		{"retry", api.OpRetryRun, false, "Begin the failed steps of a run again"},
		{"extend", api.OpExtend, false, "Move a deadline of a run"},
		{"retry", api.OpRetryStep, true, "Begin a step that has ended again"},
		{"skip", api.OpSkip, true, "Skip an open step"},
		{"complete", api.OpComplete, true, "End an open step with an output"},
		{"fail", api.OpFail, true, "End an open step with a failure"},
		{"now", api.OpNow, true, "End the backoff of a step"},
		{"set-policy", api.OpSetPolicy, true, "Replace the policy of an open step"},
		{"extend", api.OpExtend, true, "Move a deadline of a step"},
	}
}

// OperationOf returns the operation that the last part of a path names. A part that names none is returned unchanged:
// the service refuses it, and the error contains its name.
func OperationOf(path string, step bool) string {
	for _, a := range Actions() {
		if a.Path == path && a.Step == step {
			return a.Operation
		}
	}
	return path
}

// pathOf returns the last part of the path of an operation. An operation on steps that is requested without a step, or
// the other way round, keeps its name: the service refuses it. known is false if there is no such operation; another
// path could have its name, such as restart.
func pathOf(operation string, step bool) (path string, known bool) {
	for _, a := range Actions() {
		if a.Operation == operation && a.Step == step {
			return a.Path, true
		}
		known = known || a.Operation == operation
	}
	return operation, known
}

// join makes a path of parts, each of which may hold any character.
func join(parts ...string) string {
	var b strings.Builder
	b.WriteString(Base)
	for _, p := range parts {
		b.WriteByte('/')
		if p == "." || p == ".." { // a server would take these for folders
			b.WriteString(strings.ReplaceAll(p, ".", "%2E"))
			continue
		}
		b.WriteString(url.PathEscape(p))
	}
	return b.String()
}
