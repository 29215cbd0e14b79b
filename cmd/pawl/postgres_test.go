package main

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawl-dev/pawl/internal/pgtest"
)

// TestScriptOnPostgres runs testdata/postgres, with a database in PostgreSQL.
func TestScriptOnPostgres(t *testing.T) {
	t.Parallel()
	server := pgtest.StartServer(t)
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "postgres"),
		Setup: func(env *testscript.Env) error {
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
			env.Setenv("USER", "tester")
			env.Setenv("PAWL_DRAIN_WITHIN", "0s") // nobody sends callers to these servers
			env.Setenv("NO_COLOR", "")
			env.Setenv("DATABASE", server.DSN())
			u, err := url.Parse(server.DSN())
			if err != nil {
				return err
			}
			password, _ := u.User.Password()
			env.Setenv("PASSWORD", password)
			u.User = url.User(u.User.Username())
			env.Setenv("PUBLIC", u.String()) // DATABASE without the password
			env.Setenv("PAWL_DATABASE", server.DSN()+"&"+server.Lease())
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"until": until,
			"sql": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(executeSQL(t.Context(), server.DSN(), strings.Join(args, " ")))
			},
		},
		RequireUniqueNames: true,
	})
}

// executeSQL executes an SQL statement, as whoever runs the server would.
func executeSQL(ctx context.Context, dsn, statement string) error {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, statement)
	return errors.Join(err, c.Close(ctx))
}
