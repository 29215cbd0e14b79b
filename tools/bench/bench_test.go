package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// TestMain runs the tests, or acts as the child process that some rows start.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childCommand {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// TestOnServer measures a row on a file and on PostgreSQL, and checks the results, not the speed.
func TestOnServer(t *testing.T) {
	server := pgtest.StartServer(t).DSN() // a server of its own: the schema's name is the row's
	var log bytes.Buffer
	rows, err := Run(t.Context(), Options{
		Names: []string{"latency"}, Quick: true, Dir: t.TempDir(), Log: &log, Database: server,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	if len(rows) != 2 || rows[0].Database != "" || rows[1].Database != "postgres" || rows[1].P50 <= 0 ||
		rows[1].DB <= 0 {
		t.Fatalf("%+v", rows)
	}
	for _, says := range []string{"x fdatasync p50", "SQL statements a step", "x SQLite"} {
		if !strings.Contains(rows[1].detail, says) {
			t.Errorf("%q does not say %q", rows[1].detail, says)
		}
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

func benchRuns(b *testing.B, source string, steps int) {
	st, err := openOn(b.Context(), memory.New(), nil)
	if err != nil {
		b.Fatal(err)
	}
	def := definition(source)
	b.ReportAllocs()
	b.ResetTimer()
	err = each(b.Context(), b.N, inFlight, func(ctx context.Context, _ int) error { return st.once(ctx, def, nil) })
	b.StopTimer()
	b.ReportMetric(float64(b.N*steps)/b.Elapsed().Seconds(), "steps/s")
	if err := errors.Join(err, st.close()); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkOnestep(b *testing.B) { benchRuns(b, oneStepFlow, 1) }
func BenchmarkTenstep(b *testing.B) { benchRuns(b, tenStepFlow, 10) }

// TestQuick measures some quick rows and checks their results, not their speed.
func TestQuick(t *testing.T) {
	nightly.Only(t, "it measures for a while")
	var log bytes.Buffer
	rows, err := Run(t.Context(), Options{
		Names: []string{"latency", "recovery"}, Quick: true,
		Dir: t.TempDir(), Log: &log,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	if len(rows) != 2 || rows[0].Name != "latency" || rows[0].P50 <= 0 || rows[0].Floor <= 0 || rows[0].DB <= 0 {
		t.Errorf("rows %+v", rows)
	}
	if detail := rows[1].detail; !strings.Contains(detail, "in flight but 0; 0 never ran") {
		t.Errorf("recovery: %s", detail)
	}
}

// TestCommand checks that what cannot be measured is refused with what can be.
func TestCommand(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"twostep", "tenstep"}, {"onestep -o yaml", "table and json"}, {"onestep --database x", "postgres://"},
	} {
		cmd := command()
		cmd.SilenceErrors = true
		cmd.SetArgs(strings.Fields(c.args))
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.args, err)
		}
	}
}

func TestWrite(t *testing.T) {
	rows := []Row{
		{Name: "onestep", Value: 9000.4, Unit: "runs/s", P50: 20, reached: true},
		{Name: "latency", detail: "3 x"},
	}
	var out bytes.Buffer
	if err := Write(&out, rows, true); err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if len(got) != 2 || len(got[0]) != 9 || got[0]["value"] != 9000.4 {
		t.Errorf("%v", got)
	}
	out.Reset()
	if err := Write(&out, rows, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"REACH", "yes: <= 0.021 ms cpu a run", "no: p50 <= 1.7 x", "latency: 3 x"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

// TestFlows compiles the flows that are measured.
func TestFlows(t *testing.T) {
	for _, source := range []string{
		oneStepFlow, tenStepFlow, retryFlow, sleepFlow, timerFlow,
		twoStepFlow, backoffFlow,
	} {
		def := definition(source)
		if _, err := compile(def); err != nil {
			t.Errorf("%s: %v", def.Name, err)
		}
	}
}
