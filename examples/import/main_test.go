package main

import (
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/pawltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestImportGoesOn checks that an attempt that follows another one begins at the position of the last heartbeat.
func TestImportGoesOn(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "products.csv")
	if err := writeFile(file, 10_050); err != nil {
		t.Fatal(err)
	}
	db, err := openProducts(filepath.Join(dir, "products.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	im := &importer{db, 100 * time.Millisecond} // so the file takes ten seconds
	w := im.workflow()
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r, err := w.Start(t.Context(), e, "import", file)
		if err != nil {
			t.Fatal(err)
		}
		e.Skip(3500 * time.Millisecond)
		e.Crash()
		e.Skip(3500 * time.Millisecond)
		e.Crash()
		e.Skip(20 * time.Second)
		e.WantPhase(r.ID, "succeeded")
		e.WantAttempts(r.ID, "load", 1) // those that were lost do not count
	}, w)
	var rows, times int
	if err := db.QueryRow(`SELECT count(*), sum(times) FROM products`).Scan(&rows, &times); err != nil {
		t.Fatal(err)
	}
	if again := times - rows; rows != 10_050 || again > 2*1100 {
		t.Errorf("%d rows, %d of them again", rows, again)
	}
}
