package database

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/journal"
)

const (
	// joinWithin is how long a command waits for a database that is held by a process which does not answer. That one
	// may be opening the database, or about to end.
	joinWithin = 2 * time.Second
	joinLook   = 20 * time.Millisecond // the pause between two looks
	// answersWithin is how long a holder may take to answer.
	answersWithin = time.Second
)

// OpenOrJoin opens a database, or connects to the process that holds it. One of the two is returned.
func (p Place) OpenOrJoin(ctx context.Context) (journal.Journal, *httpapi.Client, error) {
	look := time.NewTicker(joinLook)
	defer look.Stop()
	for from := time.Now(); ; {
		j, err := p.Open(ctx)
		if !errors.As(err, new(*heldError)) {
			return j, nil, err
		}
		if c := p.Join(ctx); c != nil {
			return nil, c, nil
		}
		if time.Since(from) > joinWithin {
			return nil, nil, err
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-look.C:
		}
	}
}

// Join connects to the process that holds a database file. It returns nil if that process does not answer: it may be a
// program that does not listen, or a suspended one.
func (p Place) Join(ctx context.Context) *httpapi.Client {
	c := httpapi.Over("the process that holds "+p.Path, httpapi.DialSocket(p.Socket()))
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	if err := c.Ready(ctx); err != nil && api.CodeOf(err) != api.CodeStalled {
		c.Close()
		return nil
	}
	return c
}
