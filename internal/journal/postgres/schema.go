package postgres

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/pawl-dev/pawl/internal/journal"
)

// migrations are named by the version that they make, "1_tables.sql". A migration runs in one transaction, while older
// processes work on the schema: it may add tables, columns with a default and views. If older code cannot work with its
// changes, it sets "oldest" in the table meta to its own version, and processes of older code are refused from then on.
//
//go:embed migrations/*.sql
var migrations embed.FS

// versions is the table in which goose notes which migrations were made.
const versions = "schema_version"

// newest is the version of the schema that this code makes.
const newest = 2

// schemaState is what a schema's tables record about its version.
type schemaState struct {
	exists     bool // the schema
	tables     bool // Pawl's tables in it
	version    int  // the last migration
	oldest     int  // the oldest version of the schema that code has to know
	partitions int
}

// look reads the state of the schema.
func (s *storage) look(ctx context.Context) (st schemaState, err error) {
	err = s.again(ctx, func(ctx context.Context) error {
		st, err = s.lookOnce(ctx)
		return err
	})
	return st, err
}

func (s *storage) lookOnce(ctx context.Context) (schemaState, error) {
	var st schemaState
	var names int // Pawl's names, but for the table of versions: goose makes that before all others
	err := s.query(ctx, "SELECT (SELECT count(*) > 0 FROM pg_catalog.pg_namespace WHERE nspname = $1),"+
		" count(*) FILTER (WHERE c.relname IN ('meta', 'partitions', '"+versions+"')) = 3,"+
		" count(*) FILTER (WHERE c.relname <> '"+versions+"')"+
		" FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"+
		" WHERE n.nspname = $1 AND c.relname IN ('"+versions+"', 'meta', 'partitions', 'journal', 'feeds',"+
		" 'definitions',"+
		" 'runs_data', 'steps_data', 'attempts_data', 'history', 'inbox', 'taken', 'outbox', 'documents', 'runs',"+
		" 'steps',"+
		" 'attempts')",
		[]any{s.schema},
		func(r pgx.Rows) error { return r.Scan(&st.exists, &st.tables, &names) })
	if err != nil {
		return st, err
	}
	if !st.tables {
		if names > 0 {
			return st, fmt.Errorf("%w: %s has tables with the names of Pawl's that are not Pawl's; "+
				"name a schema for Pawl alone with ?schema=NAME", journal.ErrNoJournal, s.name)
		}
		return st, nil
	}
	err = s.query(ctx, s.in("SELECT (SELECT max(version_id) FROM {schema}."+versions+" WHERE is_applied),"+
		" coalesce((SELECT value FROM {schema}.meta WHERE key = 'oldest'), ''),"+
		" coalesce((SELECT value FROM {schema}.meta WHERE key = 'partitions'), '')"), nil,
		func(r pgx.Rows) error {
			var oldest, partitions string
			var version *int
			if err := r.Scan(&version, &oldest, &partitions); err != nil {
				return err
			}
			var one, two error
			st.oldest, one = strconv.Atoi(oldest)
			st.partitions, two = strconv.Atoi(partitions)
			if version == nil || one != nil || two != nil {
				return fmt.Errorf("%w: %s has a table meta that is not Pawl's, or is"+
					" damaged", journal.ErrNoJournal, s.name)
			}
			st.version = *version
			return nil
		})
	if isMissing(err) {
		err = fmt.Errorf("%w: %s has a table meta that is not Pawl's", journal.ErrNoJournal, s.name)
	}
	if err == nil && st.oldest > newest {
		err = fmt.Errorf("%w: %s has version %d of the schema, which needs code that knows version %d; this one"+
			" knows %d: use the newer Pawl", journal.ErrNewer, s.name, st.version, st.oldest, newest)
	}
	return st, err
}

// prepare brings the schema to the newest version. Several processes may do so at once: one of them makes a migration,
// the others fail with it and look again.
func (s *storage) prepare(ctx context.Context, partitions int) error {
	var failed error
	for range 4 + 4*newest { // this process fails once or more for each migration of another one
		st, err := s.look(ctx)
		if err != nil {
			return err
		}
		if st.tables && partitions != 0 && partitions != st.partitions {
			return fmt.Errorf("the schema has %d partitions, not %d, and keeps them: leave the number out,"+
				" or start with a new one", st.partitions, partitions)
		}
		if s.count = st.partitions; st.tables && st.version >= newest {
			return nil
		}
		failed = s.migrate(ctx, st, partitions)
		var said *pgconn.PgError
		if failed != nil && (!errors.As(failed, &said) || isRefusal(said.Code) || said.Code == queryCanceled) {
			break
		}
	}
	return fmt.Errorf("the tables cannot be created or migrated: %w", failed)
}

// migrate makes the missing migrations.
func (s *storage) migrate(ctx context.Context, st schemaState, partitions int) error {
	db := s.unpreparedDB()
	defer func() { _ = db.Close() }()
	if !st.exists {
		if _, err := db.ExecContext(ctx, s.in("CREATE SCHEMA IF NOT EXISTS {schema}")); err != nil {
			return err
		}
	}
	if partitions == 0 {
		partitions = defaultPartitions
	}
	all, err := s.migrations(partitions)
	if err != nil {
		return err
	}
	store, err := database.NewStore(goose.DialectPostgres, s.schema+"."+versions)
	if err != nil {
		return err
	}
	p, err := goose.NewProvider("", db, nil, goose.WithGoMigrations(all...), goose.WithDisableGlobalRegistry(true),
		goose.WithStore(store))
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	return err
}

// migrations returns the migrations with the schema's name in them.
func (s *storage) migrations(partitions int) ([]*goose.Migration, error) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	id := rand.Text() // the id of the database
	var all []*goose.Migration
	for _, file := range files {
		text, err := migrations.ReadFile(file)
		if err != nil {
			return nil, err
		}
		number, _, _ := strings.Cut(strings.TrimPrefix(file, "migrations/"), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, err
		}
		query := expand(strings.NewReplacer(
			"{partitions}", strconv.Itoa(partitions), "{database}", id).Replace(s.in(string(text))))
		all = append(all, goose.NewGoMigration(version, &goose.GoFunc{
			RunTx: func(ctx context.Context, tx *sql.Tx) error {
				// Wait for no lock behind which the appends of other processes would have to wait.
				if _, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout = '2s'"); err != nil {
					return err
				}
				_, err := tx.ExecContext(ctx, query)
				return err
			},
		}, nil))
	}
	return all, nil
}
