package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/given"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/core"
)

// connect returns the client of the server that --server names.
func (a *app) connect() (*httpapi.Client, error) {
	c, err := httpapi.New(a.server)
	if err != nil {
		return nil, asUsage(fmt.Errorf("--server: %w", err))
	}
	token, err := a.token()
	if err != nil {
		return nil, err
	}
	roots, err := a.roots()
	if err != nil {
		return nil, err
	}
	c.KeyStarts()
	c.In(a.namespace)
	if err := c.Show(token, roots); err != nil {
		return nil, asUsage(err)
	}
	a.clock = c.Now
	return c, nil
}

// token returns the token that is shown to a server, empty if there is none.
func (a *app) token() (string, error) {
	if a.tokenFile == "" {
		return strings.TrimSpace(os.Getenv("PAWL_TOKEN")), nil
	}
	text, err := os.ReadFile(a.tokenFile)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsAny(token, "\r\n") {
		return "", usage("--token-file %s: the file has to hold one line, the token", a.tokenFile)
	}
	return token, nil
}

// roots returns the certificates that are trusted for a server; nil: those of the system.
func (a *app) roots() (*x509.CertPool, error) {
	if a.ca == "" {
		return nil, nil
	}
	text, err := os.ReadFile(a.ca)
	if err != nil {
		return nil, fmt.Errorf("--ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, usage("--ca %s: the file has no certificate as PEM", a.ca)
	}
	return pool, nil
}

// terminalOf returns where this command was given.
func terminalOf(a *app) given.Terminal {
	return given.Terminal{Secrets: a.secrets, Allowed: a.envAllow, Given: a.given, Tell: a.Err}
}

// through returns a machine whose work another process does. That one carries the families on if it has let them rest.
func (a *app) through(ctx context.Context, m *machine, work bool, carried []core.RunID) (*machine, error) {
	a.joined = true
	if !work {
		return m, nil
	}
	own := terminalOf(a)
	introduced := own.Refuse("the server")
	if a.server == "" {
		introduced = own.Introduce(ctx, m.remote, carried)
	}
	if introduced != nil {
		return nil, errors.Join(introduced, m.close())
	}
	for _, top := range carried {
		if err := m.carry(ctx, top.String(), false); err != nil {
			return nil, errors.Join(err, m.close())
		}
	}
	return m, nil
}

// carryThrough follows runs that another process carries, to their end. If that process ends before them, this one
// carries them on.
func (a *app) carryThrough(ctx context.Context, m *machine, ids []string, how telling) error {
	f := a.newFollower(m.svc, nil, how)
	f.asks = true
	err := a.concluded(f, f.follow(ctx, ids))
	err = errors.Join(err, m.close())
	if a.server != "" || !otherEnded(err) {
		return err
	}
	if how != tellQuiet && how != tellJSON {
		fmt.Fprintln(a.Err, "pawl: the process that held the database has ended; this one carries on what it follows")
	}
	_, tops, err := a.toResume(ctx, ids)
	if err != nil {
		return err
	}
	if m, err = a.start(ctx, true, tops...); err != nil {
		return err
	}
	return a.carry(ctx, m, ids, how)
}

// otherEnded reports whether an error means that the other process has ended.
func otherEnded(err error) bool { return errors.Is(err, api.Sentinel(api.CodeClosed)) }

// unanswered reports whether an error means that the other process has ended, perhaps in the middle of a request.
func unanswered(err error) bool {
	return otherEnded(err) || errors.Is(err, api.Sentinel(api.CodeUncertain))
}
