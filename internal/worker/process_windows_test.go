package worker

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/worker/workertest"
)

// TestExecLine checks that quotation marks in a line of the shell stay as they are.
func TestExecLine(t *testing.T) {
	e := NewExec(ExecConfig{})
	defer e.Close()
	task := workertest.Task("exec", string(EncodeJSON(map[string]any{"shell": `echo "a b" "c"`})))
	res := e.Execute(t.Context(), &task, workertest.NewSigns())
	if got := workertest.Field(t, res.Output, "stdout"); got != `"\"a b\" \"c\"\r\n"` {
		t.Errorf("stdout is %s, %v", got, res.Failure)
	}
}
