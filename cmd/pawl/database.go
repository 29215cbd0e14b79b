package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/daemon/database"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/internal/virtual"
	"github.com/pawl-dev/pawl/policy"
)

// where parses --database and finds the default.
func (a *app) where() (p database.Place, err error) {
	if a.namespace != "" {
		return p, usage("--namespace (PAWL_NAMESPACE) is for a --server: here name the database of the namespace")
	}
	if a.server != "" {
		return p, usage("this needs the database itself: leave --server (PAWL_SERVER) out, and give --database")
	}
	if a.database == "" {
		return database.Default()
	}
	p, err = database.Parse("--database", a.database)
	return p, asUsage(err)
}

// openToRead opens the database for reading, also while another process holds it.
func (a *app) openToRead(ctx context.Context) (*service.File, func(), error) {
	p, err := a.where()
	if err != nil {
		return nil, nil, err
	}
	if p.Memory {
		return nil, nil, usage("a database in memory: ends with its command, so there is nothing to look at; use " +
			"--database sqlite:PATH")
	}
	j, err := p.OpenReadOnly(ctx)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, fmt.Errorf("there is no database at %s yet: start a run with pawl run FILE, "+
			"or name another one with --database", p.Name())
	}
	if err != nil {
		return nil, nil, err
	}
	a.clock = func(ctx context.Context) (api.Time, bool) {
		at, err := virtual.Shown(ctx, j)
		return api.Time(at), err == nil && at != 0
	}
	instant := func() time.Time { return a.runsNow(ctx) }
	svc := service.NewFile(j, a.readWorkflow, instant)
	if p.InFile() {
		svc.KnowResting((&carriers{place: p}).rests)
	}
	return svc, func() { _ = j.Close() }, nil
}

// reading calls fn with the database opened for looking, or with the server.
func (a *app) reading(ctx context.Context, fn func(ctx context.Context, svc api.Service) error) error {
	if a.server != "" {
		c, err := a.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		return fn(ctx, c)
	}
	svc, closeIt, err := a.openToRead(ctx)
	if err != nil {
		return err
	}
	defer closeIt()
	return fn(ctx, svc)
}

func clockNow() time.Time { return time.Now() }

// now returns the wall clock's time, as the command line reads it.
func now() core.Time { return policy.At(clockNow()) }

// runsNow returns the present time of the runs that this command shows: that of the wall clock, unless their server or
// database has reported a stopped clock.
func (a *app) runsNow(ctx context.Context) time.Time {
	if a.clock == nil && a.server != "" {
		if c, err := a.connect(); err == nil { // the command will report what is wrong with the address
			defer c.Close()
		}
	}
	if a.clock != nil {
		if at, stands := a.clock(ctx); stands {
			return at.Std()
		}
	}
	return clockNow()
}

// clockOf returns the clock that shows runsNow.
func (a *app) clockOf(ctx context.Context) func() time.Time {
	return func() time.Time { return a.runsNow(ctx) }
}

// apiNow returns the wall clock's time for the values of package api.
func apiNow() api.Time { return api.At(clockNow()) }
