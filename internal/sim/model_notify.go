package sim

import "github.com/pawl-dev/pawl/internal/core"

// toldName is the step of generated flows that sends a notice of a failure.
const toldName = "told"

// checkTold checks that notices were sent for a run that failed or timed out, and for no other one, if its flow asks
// for that. It looks at the document and the records only.
func (m *runModel) checkTold(phase core.RunPhase) {
	if m.ch == nil || m.a.document == nil || len(m.a.document.Notify) == 0 || phase == core.RunTerminated {
		return
	}
	told := 0
	for i := range m.steps {
		if s := &m.steps[i]; s.spec.Name == toldName && !s.dropped {
			told++
		}
	}
	wanted := 0
	if phase == core.RunFailed || phase == core.RunTimedOut {
		wanted = 1
	}
	if told != wanted {
		m.fail(Ruled, "the run has %s, and somebody was told of a failure %d times, not %d", phase, told, wanted)
	}
}
