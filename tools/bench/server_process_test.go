package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/pawl-dev/pawl/internal/nightly"
)

// TestBenchServers measures rows of a server in another process, and checks that each gives figures.
func TestBenchServers(t *testing.T) {
	t.Parallel()
	nightly.Only(t, "it measures for a while")
	rows := []string{"remote-latency", "idle-clients", "list"}
	var said, out bytes.Buffer
	cmd := command()
	cmd.SetOut(&out)
	cmd.SetErr(&said)
	cmd.SetArgs(append([]string{"--quick", "-o", "json", "--dir", t.TempDir()}, rows...))
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), said.String())
	}
	var measured []struct {
		Name  string
		Value float64
	}
	if err := json.Unmarshal(out.Bytes(), &measured); err != nil || len(measured) != len(rows) {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for i, row := range measured {
		if row.Name != rows[i] || row.Value <= 0 {
			t.Errorf("%+v", row)
		}
	}
}
