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
	dir := t.TempDir()
	cmd := command(t, dir, append([]string{"bench", "--quick", "-o", "json", "--dir", dir}, rows...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, said.Bytes())
	}
	var measured []struct {
		Name  string
		Value float64
	}
	if err := json.Unmarshal(out, &measured); err != nil || len(measured) != len(rows) {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, row := range measured {
		if row.Name != rows[i] || row.Value <= 0 {
			t.Errorf("%+v", row)
		}
	}
}
