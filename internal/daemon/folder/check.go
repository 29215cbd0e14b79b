package folder

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/daemon/workflows"
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
)

// Check implements server.Flows. It reads what Read does, and starts nothing.
func (f *Folder) Check(_ context.Context, text string) (api.CheckedFlow, error) {
	name := filepath.Join(f.path, requestFile)
	out := api.CheckedFlow{Findings: []api.FlowFinding{}}
	doc, err := flowkind.Parse(name, text, f.inside)
	if err == nil {
		out.Name, out.Steps = doc.Name, len(doc.Steps)
		for _, w := range workflows.Lint(doc, f.cluster) {
			out.Findings = append(out.Findings, api.FlowFinding{
				File: otherFile(w.File, name), Line: w.Pos.Line, Col: w.Pos.Col, Severity: string(w.Severity),
				Code: w.Code, Step: w.Step, Message: w.Msg,
			})
		}
		_, err = f.define(Files{}, name, []byte(text), f.inside) // and the flows that its steps start
	}
	out.Valid = err == nil
	out.Findings = append(out.Findings, faultsOf(err, name)...)
	return out, nil
}

// severityError is the severity of what makes a flow invalid.
const severityError = "error"

// faultsOf returns the errors of a text, each with its place.
func faultsOf(err error, name string) []api.FlowFinding {
	var all flow.Errors
	if one, ok := errors.AsType[*flow.Error](err); !errors.As(err, &all) && ok { // all of them, before the first one
		all = flow.Errors{one}
	}
	if err != nil && len(all) == 0 {
		return []api.FlowFinding{{Severity: severityError, Message: err.Error()}}
	}
	out := make([]api.FlowFinding, len(all))
	for i, e := range all {
		out[i] = api.FlowFinding{
			File: otherFile(e.File, name), Line: e.Line, Col: e.Col, Severity: severityError, Step: e.Step,
			Message: e.Msg, Hint: e.Hint,
		}
	}
	return out
}

// otherFile returns the name of a file that is not the text itself.
func otherFile(file, name string) string {
	if file == name {
		return ""
	}
	return file
}
