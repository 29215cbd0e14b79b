package sim

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// story describes a run's durable history and its workflow for people.
func (ch *checker) story(id core.RunID) string {
	a := ch.accounts[id]
	if a == nil {
		return ""
	}
	var s strings.Builder
	if w, err := workflowNamed(a.state.Workflow); err == nil {
		fmt.Fprintf(&s, "%s\n", w.text())
	}
	fmt.Fprintf(&s, "run %s of %s:\n", id, a.state.Workflow)
	for i, e := range a.entries {
		for _, rec := range e.Records {
			fmt.Fprintf(&s, "  batch %4d %14s  %s\n", a.seqs[i], offset(e.At), a.recordText(rec))
		}
	}
	fmt.Fprintf(&s, "  = %s\n", a.state.Phase)
	return s.String()
}

// tail writes the last batches of all runs.
func (ch *checker) tail(w io.Writer, batches uint64) {
	for _, a := range ch.order {
		for i, e := range a.entries {
			if a.seqs[i]+batches <= ch.u.partitionOf(a.id).lastBatch {
				continue
			}
			for _, rec := range e.Records {
				fmt.Fprintf(w, "batch %d %s %s %s\n", a.seqs[i], offset(e.At), short(a.id), a.recordText(rec))
			}
		}
	}
}

// recordText returns the text of a record, with the name of its step.
func (a *account) recordText(rec core.Record) string {
	name := ""
	if f := reflect.ValueOf(rec).FieldByName("Step"); f.IsValid() {
		if id := core.StepID(f.Uint()); int(id) < len(a.state.Steps) {
			name = a.state.Steps[id].Key() + ": "
		}
	}
	return name + recordText(rec)
}

// recordText returns the type of a record and the fields that are not zero.
func recordText(rec core.Record) string {
	v := reflect.ValueOf(rec)
	return strings.TrimPrefix(v.Type().String(), "core.") + fields(v)
}

func inputText(in core.Input) string {
	v := reflect.ValueOf(in)
	return strings.TrimPrefix(v.Type().String(), "core.") + fields(v)
}

func contentText(c core.Content) string {
	v := reflect.ValueOf(c)
	return strings.TrimPrefix(v.Type().String(), "core.") + fields(v)
}

func fields(v reflect.Value) string {
	var out []string
	for i := range v.NumField() {
		f := v.Field(i)
		if f.IsZero() || !v.Type().Field(i).IsExported() {
			continue
		}
		out = append(out, v.Type().Field(i).Name+" "+text(f))
	}
	if out == nil {
		return ""
	}
	return " {" + strings.Join(out, ", ") + "}"
}

// text writes a value in as few characters as people can understand.
func text(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case core.Time:
		return offset(x)
	case []byte:
		return string(x)
	case core.RunID:
		return short(x)
	case *policy.Failure:
		if x == nil {
			return "none"
		}
		return fmt.Sprintf("(%s)", x.Error())
	case *core.StepSpec:
		if x == nil {
			return "none"
		}
		return fmt.Sprintf("%q %d", x.Name, x.Def)
	case fmt.Stringer:
		return x.String()
	}
	switch v.Kind() {
	case reflect.Struct:
		return strings.TrimSpace(fields(v))
	case reflect.Pointer:
		if v.IsNil() {
			return "none"
		}
		return text(v.Elem())
	case reflect.Slice:
		out := make([]string, v.Len())
		for i := range out {
			out[i] = text(v.Index(i))
		}
		return "[" + strings.Join(out, " ") + "]"
	default:
		return fmt.Sprint(v.Interface())
	}
}

// short returns the end of a run's id, which is different for each run of a universe.
func short(id core.RunID) string {
	s := id.String()
	return s[len(s)-6:]
}

func tokenText(t core.Token) string { return fmt.Sprintf("%s/%d#%d", short(t.Run), t.Step, t.Attempt) }

func compareTokens(a, b core.Token) int {
	return cmp.Or(bytes.Compare(a.Run[:], b.Run[:]), cmp.Compare(a.Step, b.Step), cmp.Compare(a.Attempt, b.Attempt))
}
