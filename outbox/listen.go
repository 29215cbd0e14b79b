package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"reflect"
	"strings"
	"time"
)

// The pauses between two tries to listen. They double. Meanwhile the relay polls.
const (
	listenPause    = 250 * time.Millisecond
	listenPauseMax = 30 * time.Second
)

var (
	errNoListener = errors.New("the database's driver is not pgx")
	errNoRoom     = errors.New("the pool has no connection to spare: raise its SetMaxOpenConns")
)

// Committed tells the relays of this outbox that messages were committed, so that they look at once. PostgreSQL
// notifies them itself if the relay's database is opened with pgx. Without a call they look within [Config.Every].
func (o *Outbox) Committed() {
	if o == nil {
		return
	}
	select {
	case o.committed <- struct{}{}:
	default: // a look is ordered already
	}
}

// channel returns the name under which PostgreSQL announces messages of this table, however its name is written.
func (o *Outbox) channel() string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(strings.ToLower(strings.ReplaceAll(o.table, `"`, ""))))
	return fmt.Sprintf("pawl_outbox_%x", h.Sum64())
}

// listen calls Committed when PostgreSQL announces messages, until ctx is done. A connection that is lost is made
// again. A driver that cannot listen leaves it at polling.
func (o *Outbox) listen(ctx context.Context) {
	if !o.postgres {
		return
	}
	for pause := listenPause; ctx.Err() == nil; pause = min(2*pause, listenPauseMax) {
		listened, err := o.listenOnce(ctx)
		if errors.Is(err, errNoListener) {
			return
		}
		if listened {
			pause = listenPause
		}
		if ctx.Err() == nil {
			o.log.Warn("the relay of the outbox is not notified of new messages for now: it looks at its interval",
				"interval", o.every, "again", pause, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// listenOnce listens on its own connection until that is lost or ctx is done. listened is false if it never did.
func (o *Outbox) listenOnce(ctx context.Context) (listened bool, err error) {
	if s := o.db.Stats(); s.MaxOpenConnections > 0 && s.InUse+1 >= s.MaxOpenConnections {
		return false, errNoRoom // the last connection is for those who write messages, and for the relay's own work
	}
	conn, err := o.db.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	err = conn.Raw(func(driverConn any) error {
		if _, ok := waiter(driverConn); !ok {
			return errNoListener
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	if _, err := conn.ExecContext(ctx, "LISTEN "+o.channel()); err != nil {
		return false, err
	}
	o.Committed() // messages may have been committed while nobody listened
	return true, o.hear(ctx, conn)
}

// hear waits for announcements on a connection that listens. The connection is never used again: it would go on to
// listen in the pool.
func (o *Outbox) hear(ctx context.Context, conn *sql.Conn) error {
	return conn.Raw(func(driverConn any) error {
		wait, _ := waiter(driverConn)
		for {
			if err := wait(ctx); err != nil {
				return errors.Join(err, closeConn(driverConn))
			}
			o.Committed()
		}
	})
}

// closeConn ends a driver's connection. The pool notices that and drops it.
func closeConn(driverConn any) error {
	if c, ok := driverConn.(interface{ Close() error }); ok {
		return c.Close()
	}
	return nil
}

// waiter returns a function that blocks until the next announcement on a connection of pgx; false: it is of another
// driver. This package links no driver, so the methods are found by name: those of *stdlib.Conn and *pgx.Conn.
func waiter(driverConn any) (wait func(context.Context) error, ok bool) {
	connOf := reflect.ValueOf(driverConn).MethodByName("Conn")
	if !connOf.IsValid() || connOf.Type().NumIn() != 0 || connOf.Type().NumOut() != 1 {
		return nil, false
	}
	m := connOf.Call(nil)[0].MethodByName("WaitForNotification")
	if !m.IsValid() {
		return nil, false
	}
	t := m.Type()
	if t.NumIn() != 1 || t.In(0) != reflect.TypeFor[context.Context]() ||
		t.NumOut() != 2 || t.Out(1) != reflect.TypeFor[error]() {
		return nil, false
	}
	return func(ctx context.Context) error {
		err, _ := m.Call([]reflect.Value{reflect.ValueOf(ctx)})[1].Interface().(error)
		return err
	}, true
}
