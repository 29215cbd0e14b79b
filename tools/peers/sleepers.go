package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// The work sleepers: runs in a sleep of an hour, which need memory, room on the disk and, as they idle, no time.
const (
	mostSleepers  = 10_000
	sleepersStart = 20 * time.Second // the time to start them
	sleepersIdle  = 3 * time.Second
)

// measureSleepers opens the peer twice, because the size of its data is known when it is closed.
func measureSleepers(ctx context.Context, s stage) (turn, error) {
	if _, err := s.use(ctx, func(engine) (turn, error) { return turn{}, nil }); err != nil {
		return turn{}, err
	}
	empty, err := s.size(ctx)
	if err != nil {
		return turn{}, err
	}
	t, err := s.use(ctx, func(e engine) (turn, error) { return s.asleep(ctx, e) })
	if err != nil {
		return turn{}, err
	}
	full, err := s.size(ctx)
	t.Disk = (full - empty) / t.Runs
	return t, err
}

// asleep starts the runs and looks at the peer while they sleep.
func (s stage) asleep(ctx context.Context, e engine) (t turn, err error) {
	resident := func() float64 {
		debug.FreeOSMemory()
		return residentOf(os.Getpid()) + residentOf(e.process())
	}
	before, due := resident(), time.Now().Add(time.Hour).UnixMicro()
	from := s.used(e)
	n, err := startMany(ctx, e, s.work.clients, mostSleepers, time.Now().Add(sleepersStart),
		func(i int) job { return job{Run: int64(i) + 1, Due: due} })
	if err != nil {
		return turn{}, err
	}
	rest(ctx, sleepersIdle+s.peer.parks) // the last ones still had something to do
	t.Runs = float64(n)
	t.since(from, s.used(e), t.Runs)
	t.Memory = (resident() - before) / t.Runs
	from = s.used(e)
	rest(ctx, sleepersIdle)
	to := s.used(e)
	t.Idle = (to.own + to.base - from.own - from.base).Seconds() / to.at.Sub(from.at).Seconds()
	return t, context.Cause(ctx)
}

// size returns how many bytes of the disk the data of the closed peer takes, after a checkpoint.
func (s stage) size(ctx context.Context) (sum float64, err error) {
	if s.database != nil {
		return s.database.size(ctx)
	}
	files, err := filepath.Glob(filepath.Join(s.dir, "*.db"))
	for _, name := range files {
		if err == nil {
			err = checkpoint(name)
		}
	}
	if err != nil {
		return 0, err
	}
	err = filepath.WalkDir(s.dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sum += float64(info.Size()) // not its blocks, which are reserved before they are used
		return nil
	})
	return sum, err
}

// checkpoint brings the log of a SQLite file into it.
func checkpoint(name string) error {
	db, err := sqlite.OpenConn(name, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	return errors.Join(sqlitex.ExecuteTransient(db, "PRAGMA wal_checkpoint(TRUNCATE)", nil), db.Close())
}
