package sim

import (
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
)

// labelChangeModel is a change of a label by a step of a body.
type labelChangeModel struct {
	step       int
	key, value string // an empty value removes the label
}

// createLabels takes the labels of a new run. One that follows another in a chain must have those of that one.
func (m *runModel) createLabels(rec core.RunCreated) {
	m.labels = map[string]string{}
	for line := range strings.SplitSeq(string(rec.Labels), "\n") {
		if key, value, ok := strings.Cut(line, "="); ok {
			m.labels[key] = value
		}
	}
	m.startLabels = maps.Clone(m.labels)
	if before := m.ch.accounts[rec.Chain.Previous]; before != nil && !maps.Equal(before.model.labels, m.labels) {
		m.fail(Recorded, "the run has the labels %v, the one before it had %v", m.labels, before.model.labels)
	}
	if rec.Parent.Run != (core.RunID{}) && rec.Chain.Previous == (core.RunID{}) && len(m.labels) > 0 {
		m.fail(Recorded, "a child run has the labels %v", m.labels)
	}
}

// setLabels applies a change of labels that a body has recorded.
func (m *runModel) setLabels(rec core.StepOmitted) {
	if isLabel := strings.Contains(rec.Spec.Name, "label:"); isLabel != (rec.Labels != "") && !rec.Kept {
		m.fail(Recorded, "%s is recorded with the labels %q", rec.Spec.Name, rec.Labels)
	}
	if rec.Labels == "" {
		return
	}
	if string(rec.Labels) != string(rec.Output) {
		m.fail(Recorded, "the labels %q are recorded, the body has set %q", rec.Labels, rec.Output)
	}
	key, value, _ := strings.Cut(string(rec.Labels), "=")
	m.labelChanges = append(m.labelChanges, labelChangeModel{len(m.steps), key, value})
	m.changeLabel(key, value)
}

func (m *runModel) changeLabel(key, value string) {
	if m.labels[key] = value; value == "" {
		delete(m.labels, key)
	}
}

// resetLabels makes the labels what they would be if the dropped steps had never been decided.
func (m *runModel) resetLabels() {
	before := m.labels
	m.labels = maps.Clone(m.startLabels)
	for _, c := range m.labelChanges {
		if !m.steps[c.step].dropped {
			m.changeLabel(c.key, c.value)
		}
	}
	if !maps.Equal(before, m.labels) {
		m.ch.relabelled++
	}
}

// checkLabels compares the labels of the run's state with those of the model.
func (m *runModel) checkLabels() {
	lines := make([]string, 0, len(m.labels))
	for _, key := range slices.Sorted(maps.Keys(m.labels)) {
		lines = append(lines, key+"="+m.labels[key])
	}
	labels := m.a.state.Labels.With(core.LabelCompensation + "=")
	// A run that closes has its outcome already if it has ended before, and a hook of it is made again.
	if unfinished := m.a.state.Unfinished(); !m.closing && unfinished != (labels != m.a.state.Labels) {
		m.fail(Recorded, "the run's labels are %q, and its compensation is unfinished: %v",
			m.a.state.Labels, unfinished)
	}
	if want := strings.Join(lines, "\n"); string(labels) != want {
		m.fail(Recorded, "the run's labels are %q, want %q", m.a.state.Labels, want)
	}
}
