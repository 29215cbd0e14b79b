package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Labels are the values by which a run can be found: lines "key=value", sorted by key. As one text they can be
// compared, and are readable in the view. In a change of labels a line without a value removes the label.
type Labels string

// The bounds of labels.
const (
	MaxLabels      = 50
	maxLabelKey    = 100 // bytes
	maxLabelValue  = 500 // bytes
	labelLine      = "\n"
	labelSeparator = "="
)

// MakeLabels checks labels and puts them in order. An empty value is kept: it removes a label.
func MakeLabels(all map[string]string) (Labels, error) {
	var errs []error
	for key, value := range all {
		errs = append(errs, checkLabel(key, value))
	}
	if len(all) > MaxLabels {
		errs = append(errs, fmt.Errorf("%d labels, more than %d", len(all), MaxLabels))
	}
	return join(all), errors.Join(errs...)
}

func join(all map[string]string) Labels {
	keys := make([]string, 0, len(all))
	for key := range all {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for i, key := range keys {
		keys[i] = key + labelSeparator + all[key]
	}
	return Labels(strings.Join(keys, labelLine))
}

func checkLabel(key, value string) error {
	bad := func(s string) bool { return !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) }
	switch {
	case key == "":
		return errors.New("a label has an empty key")
	case len(key) > maxLabelKey:
		return fmt.Errorf("the label %q has a key of %d bytes, more than %d", key, len(key), maxLabelKey)
	case strings.Contains(key, labelSeparator), bad(key):
		return fmt.Errorf("the key of the label %q contains = or a control character, or is not UTF-8", key)
	case len(value) > maxLabelValue:
		return fmt.Errorf("the label %q has a value of %d bytes, more than %d", key, len(value), maxLabelValue)
	case bad(value):
		return fmt.Errorf("the value of the label %q contains a control character, or is not UTF-8", key)
	default:
		return nil
	}
}

// Map returns the labels by key. It is nil if there are none.
func (l Labels) Map() map[string]string {
	if l == "" {
		return nil
	}
	all := map[string]string{}
	for line := range strings.SplitSeq(string(l), labelLine) {
		key, value, _ := strings.Cut(line, labelSeparator)
		all[key] = value
	}
	return all
}

// With returns the labels after a change. What would be more than MaxLabels is left out, the last keys first, so that
// the result does not depend on who applies it.
func (l Labels) With(change Labels) Labels {
	if change == "" {
		return l
	}
	all := l.Map()
	if all == nil {
		all = map[string]string{}
	}
	for key, value := range change.Map() {
		if value == "" {
			delete(all, key)
		} else {
			all[key] = value
		}
	}
	lines := strings.Split(string(join(all)), labelLine)
	return Labels(strings.Join(lines[:min(len(lines), MaxLabels)], labelLine))
}

// labelLog records how a run got its labels.
type labelLog struct {
	start   Labels
	changes []labelChange // the changes in their order
}

// labelChange is a change of labels that a step of a body is recorded with.
type labelChange struct {
	step   StepID
	change Labels
}

// applyLabels changes the run's labels as a step of its body asks.
func (r *Run) applyLabels(id StepID, change Labels) {
	if change == "" {
		return
	}
	if r.labelLog == nil {
		r.labelLog = &labelLog{start: r.Labels}
	}
	r.labelLog.changes = append(r.labelLog.changes, labelChange{id, change})
	r.Labels = r.Labels.With(change)
}

// relabel changes the labels when steps have been dropped, whose changes count no more.
func (r *Run) relabel(change Labels) {
	if r.labelLog != nil {
		r.labelLog.changes = slices.DeleteFunc(r.labelLog.changes, func(c labelChange) bool {
			return r.Steps[c.step].Dropped
		})
	}
	r.Labels = r.Labels.With(change)
}

// unlabel returns the change that sets the run's labels to what they would be without some steps.
func (r *Run) unlabel(drop []StepID) Labels {
	if r.labelLog == nil || len(drop) == 0 {
		return ""
	}
	want := r.labelLog.start
	for _, c := range r.labelLog.changes {
		if !slices.Contains(drop, c.step) {
			want = want.With(c.change)
		}
	}
	have, changed := r.Labels.Map(), want.Map()
	if changed == nil {
		changed = map[string]string{}
	}
	for key, value := range have {
		if now, ok := changed[key]; !ok {
			changed[key] = "" // removes it
		} else if now == value {
			delete(changed, key)
		}
	}
	return join(changed)
}

// HasAll reports whether all labels of another set are among these.
func (l Labels) HasAll(others Labels) bool {
	have := l.Map()
	for key, value := range others.Map() {
		if v, ok := have[key]; !ok || v != value {
			return false
		}
	}
	return true
}
