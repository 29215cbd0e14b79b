package worker

import (
	"context"
	"testing"

	"github.com/pawl-dev/pawl/core"
)

func run(t *testing.T, ctx context.Context, cfg ExecConfig, task core.Task) (Result, *signs) {
	t.Helper()
	s := newSigns()
	return NewExec(cfg).Execute(ctx, task, s), s
}

func TestExecSmoke(t *testing.T) {
	res, s := run(t, t.Context(), ExecConfig{LogDir: t.TempDir(), Owner: "x"}, testTask("exec", `{"shell":"echo hi; env | grep PAWL; echo '{\"a\":1}'; echo k=v >> $PAWL_OUTPUT"}`))
	t.Log(string(res.Output), res.Failure, len(s.outputs))
	res, _ = run(t, t.Context(), ExecConfig{}, testTask("exec", `{"command":["nope"]}`))
	t.Log(string(res.Output), res.Failure)
	res, _ = run(t, t.Context(), ExecConfig{}, testTask("exec", `{"shell":"echo bad >&2; exit 3"}`))
	t.Log(string(res.Output), res.Failure)
}
