// Command import copies the rows of a CSV file into a database. It is one long step: its heartbeats report its
// position, and an attempt goes on where the last one ended.
//
//	go run ./examples/import                   20,000 rows, for about ten seconds
//	kill -9 the process, and start it again: it repeats the rows of a second at most
//	rm -r pawl-data/import                     to begin anew
package main

import (
	"context"
	"database/sql"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // where the products are

	"github.com/pawl-dev/pawl"
	_ "github.com/pawl-dev/pawl/journal/sqlite" // where the runs are kept
)

// batch is how many rows are written in one transaction.
const batch = 100

// importer holds the systems that the workflow works with.
type importer struct {
	db   *sql.DB
	pace time.Duration // duration of a batch
}

// place is the position of an attempt: the details of its heartbeats.
type place struct {
	Row    int
	Offset int64 // byte offset in the file
}

// progress is how far an import is: what its next attempt goes on from.
var progress pawl.Heartbeat[place]

func (im *importer) workflow() *pawl.Workflow[string, int] {
	return pawl.Define("import", func(ctx pawl.Context, file string) (int, error) {
		load := func(ctx context.Context) (int, error) { return im.load(ctx, file) }
		return pawl.Step(ctx, "load", load,
			pawl.HeartbeatTimeout("30s"), // an attempt that is silent for so long hangs: the next one begins
			pawl.Timeout("6h"),
			pawl.Retry(pawl.RetryPolicy{MaxAttempts: 10, MaxInterval: time.Minute, MaxLost: -1}))
	})
}

// load runs the step. It returns how many rows the file has.
func (im *importer) load(ctx context.Context, file string) (int, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	at, resumed := progress.Last(ctx)
	if resumed {
		fmt.Println("goes on at row", at.Row)
	}
	if _, err := f.Seek(at.Offset, io.SeekStart); err != nil {
		return 0, err
	}

	rows := csv.NewReader(f)
	for from := at.Offset; ; {
		n, err := im.put(ctx, rows)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			return at.Row, nil
		}
		at = place{Row: at.Row + n, Offset: from + rows.InputOffset()}
		progress.Beat(ctx, at) // only after the commit, so that the reported position is durable
	}
}

// put writes a batch of rows. A row that is there already stays, so it does no harm to write it again.
func (im *importer) put(ctx context.Context, rows *csv.Reader) (int, error) {
	select {
	case <-time.After(im.pace):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	tx, err := im.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	for n := range batch {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return n, tx.Commit()
		}
		if err != nil {
			return 0, pawl.NonRetryable(err) // the file will not be better the next time
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO products (sku, name) VALUES (?, ?)
			ON CONFLICT (sku) DO UPDATE SET times = times + 1`, row[0], row[1]); err != nil {
			return 0, err
		}
	}
	return batch, tx.Commit()
}

func main() {
	dir := flag.String("dir", filepath.Join("pawl-data", "import"), "folder of the databases and the file")
	rows := flag.Int("rows", 20_000, "how many rows the file has")
	pace := flag.Duration("pace", 50*time.Millisecond, "how long 100 rows take")
	flag.Parse()
	if err := run(*dir, *rows, *pace); err != nil {
		fmt.Fprintln(os.Stderr, "import:", err)
		os.Exit(1)
	}
}

func run(dir string, rows int, pace time.Duration) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file := filepath.Join(dir, "products.csv")
	if err := writeFile(file, rows); err != nil {
		return err
	}
	db, err := openProducts(filepath.Join(dir, "products.db"))
	if err != nil {
		return err
	}
	defer db.Close()

	ctx, w := context.Background(), (&importer{db, pace}).workflow()
	eng, err := pawl.Open(ctx, pawl.Config{
		Database: "sqlite:" + filepath.Join(dir, "pawl.db"), Workflows: []pawl.Definition{w},
	})
	if err != nil {
		return err
	}
	r, err := w.Start(ctx, eng, "", file, pawl.IdempotencyKey(file)) // or finds the run of an earlier life
	if err != nil {
		return errors.Join(err, eng.Close())
	}
	n, err := r.Result(ctx)
	if err != nil {
		return errors.Join(err, eng.Close())
	}
	var again int
	err = db.QueryRowContext(ctx, `SELECT count(*) FROM products WHERE times > 1`).Scan(&again)
	fmt.Printf("%d rows are imported, %d of them more than once\n", n, again)
	return errors.Join(err, eng.Close())
}

func openProducts(path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return nil, err
	}
	_, err = db.Exec(`CREATE TABLE IF NOT EXISTS products (sku TEXT PRIMARY KEY, name TEXT, times INT DEFAULT 1)`)
	return db, err
}

// writeFile makes the file that is imported, if there is none.
func writeFile(path string, rows int) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	var text []byte
	for i := range rows {
		text = fmt.Appendf(text, "sku-%06d,\"Product %d\"\n", i, i)
	}
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path) // whole or not at all
}
