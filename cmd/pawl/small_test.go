package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pawlbin"
)

// TestSmall builds the binary of README's first command, which leaves parts out. It checks that the binary runs a flow,
// and names each part when somebody asks for it.
func TestSmall(t *testing.T) {
	nightly.Only(t, "it builds another binary")
	dir, small := t.TempDir(), filepath.Join(pawlbin.BuildSmall(t, "./cmd/pawl"), "pawl")
	for _, c := range []struct {
		name, want string
		env        []string
		args       []string
	}{
		{"flow", "succeeded", nil, []string{"run", "../../examples/backup/flow.yaml", "--database", "memory:"}},
		{"PostgreSQL", "without PostgreSQL", nil, []string{"run", "list", "--database", "postgres://127.0.0.1:1/x"}},
		{"S3", "without S3", nil, []string{
			"dev", "--listen", "127.0.0.1:0", "--database", "memory:", "--artifacts", "s3://a/b",
		}},
		{"Temporal", "without Temporal's protocol", nil, []string{
			"dev", "--listen", "127.0.0.1:0", "--database", "memory:", "--temporal", "127.0.0.1:0",
		}},
		{"OpenTelemetry", "without OpenTelemetry", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"}, []string{
			"dev", "--listen", "127.0.0.1:0", "--database", "memory:",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), small, c.args...)
			cmd.Env = append(cmd.Environ(), "XDG_STATE_HOME="+dir)
			cmd.Env = append(cmd.Env, c.env...)
			out, err := cmd.CombinedOutput()
			if !strings.Contains(string(out), c.want) || (err == nil) != (c.name == "flow") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
