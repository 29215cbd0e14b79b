package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// TestNodes measures nodes that leave and nodes that are far from the database, and checks the results, not the speed.
func TestNodes(t *testing.T) {
	nightly.Only(t, "it measures for a while")
	server := pgtest.StartServer(t).DSN() // a server of its own: the schema's name is the row's
	var log bytes.Buffer
	rows, err := Run(t.Context(), Options{
		Names: []string{"drain", "nodes"}, Quick: true, Dir: t.TempDir(), Log: &log, Database: server,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	if len(rows) != 2 || rows[0].Name != "drain" || rows[0].Database != "postgres" || rows[0].P50 <= 0 {
		t.Fatalf("%+v", rows)
	}
	if !strings.Contains(rows[1].detail, "runs/s by four nodes") || rows[1].Value <= 0 {
		t.Errorf("nodes: %g, %s", rows[1].Value, rows[1].detail)
	}
	c, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(t.Context())) }()
	left := 0
	err = c.QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'pawl%'").Scan(&left)
	if err != nil || left != 0 {
		t.Errorf("%d schemas are left, %v", left, err)
	}
}

// TestFar looks at how long a question and its answer take to a database that is far away.
func TestFar(t *testing.T) {
	nightly.Only(t, "it starts a server")
	sv, err := newServer(t.Context(), pgtest.Start(t), "far")
	if err != nil {
		t.Fatal(err)
	}
	f, err := newFar(t.Context(), sv.address, farAway/2)
	if err != nil {
		t.Skip(err)
	}
	defer f.close()
	by := *sv
	by.address = f.address
	c, err := by.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(t.Context())) }()
	w, err := closedLoop(t.Context(), 1, 0, 20*farAway, func(ctx context.Context) error { return c.Ping(ctx) }, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, took := range w.all {
		if took < farAway {
			t.Errorf("an answer came after %s", took)
		}
	}
}

// TestNodesNeedServer checks that without a database in PostgreSQL there are no nodes.
func TestNodesNeedServer(t *testing.T) {
	cmd := command()
	cmd.SilenceErrors = true
	cmd.SetArgs([]string{"takeover"})
	err := cmd.ExecuteContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), "--database postgres://") {
		t.Errorf("%v", err)
	}
}
