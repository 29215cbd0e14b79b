package main

import (
	"encoding/json"
	"testing"
)

// TestBenchServers measures the rows of a server in another process, and checks that each gives figures.
// It is not parallel, because it measures.
func TestBenchServers(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	rows := []string{"http-onestep", "remote-onestep", "remote-latency", "idle-clients", "list", "idle"}
	dir := t.TempDir()
	cmd := command(t, dir, append([]string{"bench", "--quick", "-o", "json", "--dir", dir}, rows...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
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
