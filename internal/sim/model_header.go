package sim

import (
	"fmt"
	"hash/fnv"

	"github.com/pawl-dev/pawl/internal/core"
)

// headersOfStart returns the headers that a client gives the start with that mark. A third of the starts has none.
func headersOfStart(mark string) core.Headers {
	if n := hashText(mark); n%3 > 0 {
		return core.Headers(fmt.Sprintf("mark=%s\ntenant=t%d", mark, n%2))
	}
	return ""
}

// createHeaders takes the headers of a new run: those of the earlier run in its chain, else those of its parent, else
// those of its start.
func (m *runModel) createHeaders(rec core.RunCreated) {
	m.headers = rec.Headers
	want, of := headersOfStart(rec.Reason), "its start"
	if before := m.ch.accounts[rec.Chain.Previous]; before != nil {
		want, of = before.model.headers, "the run before it"
	} else if parent := m.ch.accounts[rec.Parent.Run]; parent != nil {
		want, of = parent.model.headers, "its parent"
	}
	if rec.Headers != want {
		m.fail(Recorded, "the run has the headers %q, %s has %q", rec.Headers, of, want)
	}
}

// hashHeaders returns the hash of the headers that a body sees when it begins.
func hashHeaders(headers core.Headers) uint32 {
	if headers == "" {
		return 0
	}
	return hashText(string(headers))
}

func hashText(text string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text))
	return h.Sum32()
}
