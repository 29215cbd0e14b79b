package pawl

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// share says whose limits bound a step. The step of a body stays on the queue that only its own process serves.
func (o *stepOptions) share(spec *core.StepSpec) {
	if spec.Kind != core.KindTask && spec.Kind != core.KindChild {
		return
	}
	s := core.Share{Service: o.service, Key: o.key}
	if spec.Type == body.TypeLocal {
		s.Queue, spec.Queue = o.queue, ""
	}
	if s == (core.Share{}) {
		return
	}
	share := s // so that only a step that shares limits needs memory for them
	spec.Share = &share
}

// knows reports whether a queue is in the configuration.
func (h *host) knows(queue string) bool {
	_, known := h.queues[queue]
	return known
}

// checkLimits refuses limits that make no sense.
func checkLimits(field string, all map[string]policy.QueueLimits) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		l := all[name]
		err := l.Check()
		if err == nil && name == "" {
			err = errors.New("the name is empty")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("Config.%s[%q]: %w", field, name, err))
		}
	}
	return errors.Join(errs...)
}
