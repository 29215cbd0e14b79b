package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/journal/postgres"
	"github.com/pawl-dev/pawl/internal/worker"
)

// server is a PostgreSQL database on which a row is measured, in its own schema.
type server struct {
	address *url.URL // the address with the schema
	schema  string
	stored  counter
	before  int64 // statements when the runs began
}

// counter is a count of the journal on PostgreSQL.
type counter interface {
	Statements() int64
	Bytes(ctx context.Context) (int64, error)
}

// onServer returns the target of a row on PostgreSQL, or "" if it is not measured there.
func onServer(name string) string {
	if i := slices.IndexFunc(nodeWorks, func(w work) bool { return w.name == name }); i >= 0 {
		return nodeWorks[i].target
	}
	return map[string]string{
		"onestep": ">= 10000 runs/s, <= 0.2 SQL statements a step", "tenstep": ">= 25000 steps/s, <= 0.2 SQL" +
			" statements a step",
		"latency": "p50 <= 5 x fdatasync p50", "retry": "–", "sleepers": "<= 600 B of database a run",
		"timers": "lateness p99 <= 20ms",
	}[name]
}

// onServerAlone reports whether a row is measured on PostgreSQL only, because it is about nodes.
func onServerAlone(name string) bool {
	return slices.Contains(namesOf(nodeWorks), name)
}

// serverRows lists the rows that are measured on PostgreSQL.
func serverRows() (names []string) {
	for _, w := range works {
		if onServer(w.name) != "" {
			names = append(names, w.name)
		}
	}
	return append(names, namesOf(nodeWorks)...)
}

// isServer reports whether an address names a PostgreSQL database.
func isServer(address string) bool {
	return strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://")
}

// newServer names the schema of a row, and drops what an earlier bench has left of it.
func newServer(ctx context.Context, address, row string) (*server, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("--database: it is not understood: write it like postgres://user@host/database")
	}
	sv := &server{address: u, schema: "pawl_bench_" + row}
	q := u.Query()
	q.Set("schema", sv.schema)
	u.RawQuery = q.Encode()
	return sv, sv.drop(ctx)
}

// connect connects past the journal.
func (sv *server) connect(ctx context.Context) (*pgx.Conn, error) {
	u := *sv.address
	q := u.Query()
	for _, own := range []string{"schema", "partitions", "lease", "statement_timeout", "pool_max_conns"} {
		q.Del(own)
	}
	u.RawQuery = q.Encode()
	return pgx.Connect(ctx, u.String())
}

// drop removes the schema.
func (sv *server) drop(ctx context.Context) error {
	c, err := sv.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	_, err = c.Exec(ctx, "DROP SCHEMA IF EXISTS "+sv.schema+" CASCADE")
	return err
}

// open opens the engine on the session's database.
func (s *session) open(ctx context.Context, types map[string]worker.Executor) (*stack, error) {
	if s.server == nil {
		return openStack(ctx, s.dir, types)
	}
	j, err := postgres.Open(ctx, s.server.address.String())
	if err != nil {
		return nil, err
	}
	s.server.stored, _ = j.(counter)
	return openOn(ctx, j, types)
}

// measureServer adds the size of a server's database, which is open.
func (s *session) measureServer(ctx context.Context, row *Row) (err error) {
	if s.server != nil {
		row.DB, err = s.server.stored.Bytes(ctx)
	}
	return err
}

// measureFile adds the size of the files, which are closed.
func (s *session) measureFile(row *Row) (err error) {
	if s.server == nil {
		row.DB, err = folderBytes(s.dir)
	}
	return err
}

// statements counts the statements of a closed loop, warm-up included, for each of its steps.
func (s *session) statements(done, steps int) string {
	if s.server == nil {
		return ""
	}
	n := s.server.stored.Statements() - s.server.before
	return fmt.Sprintf(", %.3g SQL statements a step", float64(n)/float64(max(done*steps, 1)))
}

// onBoth measures a row on a file and then on the server, and adds the ratio of the two.
func (o Options) onBoth(ctx context.Context, w work) (rows []Row, err error) {
	if onServerAlone(w.name) {
		row, err := o.measure(ctx, w)
		if err != nil {
			return nil, err
		}
		row.Database = "postgres"
		return []Row{row}, nil
	}
	file := o
	file.Database = ""
	first, err := file.measure(ctx, w)
	if err != nil {
		return nil, err
	}
	second, err := o.measure(ctx, w)
	if err != nil {
		return []Row{first}, err
	}
	second.Database = "postgres"
	second.detail += fmt.Sprintf(", %.3g x SQLite", second.Value/first.Value)
	return []Row{first, second}, nil
}

// reaches returns what a row reaches on a server, or on a file.
func (s *session) reaches(server, file bool) bool {
	if s.server != nil {
		return server
	}
	return file
}
