package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Options of Open. The zero value is useful.
type Options struct {
	// Command shows other processes who holds the file. Defaults to the command line of this process.
	Command string
	// Since shows other processes since when the file is held. Zero: not shown.
	Since core.Time
	// Partitions is how many partitions a new file gets. An existing file must have the same number. Default: the
	// number in the file, or one for a new file. With several partitions a program uses more processor cores. The
	// number cannot be changed later.
	Partitions int
}

// Journal is a journal in a SQLite file. It is safe for concurrent use.
type Journal struct {
	path     string
	readOnly bool
	lock     *lockFile
	count    int         // the number of partitions
	file     os.FileInfo // the state when it was opened; nil: read-only

	mu         sync.Mutex         // held while writing: SQLite has one writer
	w          *writer            // nil: read-only, or closed
	partitions map[int]*partition // the partitions that have an owner
	lost       error              // why nothing is written any longer
	group      group

	// Connections for reads. The receiver of a nil opens a connection. Urgent reads have their own, so that they do not
	// wait while callers list many runs or the storage is slow.
	readers, urgentReaders chan *conn

	closing chan struct{} // closed by Close
	check   checkpointer
}

// partition is the state of a partition. It is always right, because no other process writes the file.
type partition struct {
	epoch, first, last, through uint64
	owner                       string
	taken                       map[int]uint64          // the messages that were taken when it was acquired or renewed
	feeds                       map[string]journal.Feed // never changed in place
}

// writerCache is how many bytes of pages the writer keeps in memory. Most writes append, and the pages for look-ups are
// in the system's cache anyway: 32 MiB was not faster, and each page takes twice its size.
const writerCache = 8 << 20

// readerCount is how many reads may run at the same time, and how many urgent ones beside them. Others wait.
const readerCount = 2

// Open opens the database at path and holds it until Close. It creates the database if there is none.
// Errors: *HeldError (journal.ErrHeld), journal.ErrNoJournal, ErrNewer, ErrReadOnly, ErrCorrupt, ErrFull.
func Open(path string, o Options) (*Journal, error) {
	if path == "" {
		return nil, errors.New("journal: open: the database has no file name: write it like sqlite:shop.db")
	}
	j := newJournal(path)
	if o.Partitions < 0 || o.Partitions > journal.MostPartitions {
		return nil, fmt.Errorf("journal: open %s: %d partitions: there can be from 1 to %d",
			path, o.Partitions, journal.MostPartitions)
	}
	if o.Command == "" {
		o.Command = commandLine()
	}
	if dir := filepath.Dir(path); !isDir(dir) {
		return nil, fmt.Errorf("journal: open %s: there is no directory %s: create it first", path, dir)
	}
	if err := checkKind(path); err != nil {
		return nil, err
	}
	if err := checkVanished(path); err != nil {
		return nil, err
	}
	if err := writable(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s: %w (make the file writable for this user)", journal.ErrReadOnly, path, err)
	}
	l, err := lock(path, Holder{PID: os.Getpid(), Command: o.Command, Since: o.Since})
	if err != nil {
		if held := (*HeldError)(nil); errors.As(err, &held) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: open %s: %w (make its directory writable for this user)",
			journal.ErrReadOnly, path, err)
	}
	j.lock = l
	if err := j.open(o.Partitions); err != nil {
		j.close()
		return nil, j.wrap("open", err)
	}
	go j.check.run(j)
	return j, nil
}

// OpenReadOnly opens the database at path for reading, even if another process holds it. Acquire, Append and Prune
// return journal.ErrReadOnly.
func OpenReadOnly(path string) (*Journal, error) {
	j := newJournal(path)
	j.readOnly = true
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("journal: open %s: %w", path, err)
	}
	if err := checkKind(path); err != nil {
		return nil, err
	}
	err := j.read(context.Background(), func(c *conn) error {
		empty, err := j.identify(c)
		if err == nil && empty {
			err = fmt.Errorf("%w: %s is empty; starting a run with it makes it a database",
				journal.ErrNoJournal, path)
		}
		return err
	})
	if err != nil {
		j.closeReaders()
		return nil, j.wrap("open", err)
	}
	return j, nil
}

func newJournal(path string) *Journal {
	j := &Journal{
		path:          path,
		partitions:    map[int]*partition{},
		readers:       make(chan *conn, readerCount),
		urgentReaders: make(chan *conn, readerCount),
		closing:       make(chan struct{}),
	}
	for range readerCount {
		j.readers <- nil
		j.urgentReaders <- nil
	}
	return j
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// checkKind returns an error if there is something at path that is not a file. To open a named pipe, for example, would
// take until somebody writes into it.
func checkKind(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil //nolint:nilerr // what cannot be opened says so when it is opened
	case info.Mode().IsRegular():
		return nil
	case info.IsDir():
		return fmt.Errorf("%w: %s is a directory; name a file in it", journal.ErrNoJournal, path)
	default:
		return fmt.Errorf("%w: %s is not a file but a pipe, a socket or a device; give another path",
			journal.ErrNoJournal, path)
	}
}

// checkVanished refuses to make a new file where another one was in use until it was removed: the log beside it, which
// SQLite would read into the new one, holds commits of the old one.
func checkVanished(path string) error {
	log, err := os.Stat(path + "-wal")
	if err != nil || log.Size() == 0 {
		return nil //nolint:nilerr // there is no log, or it cannot be seen; the file will not open either
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("%w: %s was removed while it was in use, and its last commits are in %s-wal: put the file back, "+
		"or restore a backup; to begin with an empty database remove %s-wal", journal.ErrGone, path, path, path)
}

func (j *Journal) PartitionCount() int { return j.count }

// Path returns the file's path.
func (j *Journal) Path() string { return j.path }

// open opens the writer's and the checkpointer's connections, and creates the file's contents if there are none.
func (j *Journal) open(partitions int) error {
	// A new file is private to this user: it holds the data of all runs. SQLite gives the files beside it the same
	// mode.
	f, err := os.OpenFile(j.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	conn, err := openConn(j.path, sqlite.OpenReadWrite|sqlite.OpenCreate, writerCache)
	if err != nil {
		return err
	}
	j.w = &writer{conn: conn, names: map[string]int64{}, definitions: map[core.DefinitionID]definition{}}
	if j.file, err = os.Stat(j.path); err != nil {
		return err
	}
	// Check that the file is Pawl's before anything in it is changed.
	empty, err := j.identify(conn)
	if err != nil {
		return err
	}
	if empty {
		j.count = max(partitions, 1)
	} else if partitions != 0 && partitions != j.count {
		return fmt.Errorf("it has %d partitions, not %d, and keeps them: leave the number out,"+
			" or start with a new file", j.count, partitions)
	}
	if err := makeDurable(conn); err != nil {
		return err
	}
	if empty {
		err = create(conn, j.count)
	} else {
		err = refreshViews(conn)
	}
	if err != nil {
		return err
	}
	if err := j.w.prepare(); err != nil {
		return err
	}
	j.check.conn, err = openConn(j.path, sqlite.OpenReadWrite, reserveCache)
	if err != nil {
		return err
	}
	j.check.conn.SetBusyTimeout(0) // do not wait for a reader's snapshot, because appends would wait too
	j.check.wake = make(chan struct{}, 1)
	j.check.done = make(chan struct{})
	return nil
}

// Close closes the journal. What was appended is durable already. Close copies the write-ahead log into the file, so
// that only one file is left.
func (j *Journal) Close() error {
	j.mu.Lock()
	select {
	case <-j.closing:
		j.mu.Unlock()
		return nil
	default:
	}
	close(j.closing)
	j.mu.Unlock()
	j.closeReaders()
	if j.readOnly {
		return nil
	}
	<-j.check.done
	j.mu.Lock()
	defer j.mu.Unlock()
	var err error
	if j.lost == nil {
		_, _, err = j.check.checkpoint("TRUNCATE")
	}
	j.close()
	if isFull(sqlite.ErrCode(err)) {
		return nil // the log stays next to the file, and the next Open reads it
	}
	return j.wrap("close", err)
}

func (j *Journal) close() {
	if j.check.conn != nil {
		_ = j.check.conn.Close()
		j.check.conn = nil
	}
	if j.w != nil {
		_ = j.w.conn.Close()
		j.w = nil
	}
	if j.lock != nil {
		j.lock.release()
		j.lock = nil
	}
}

func (j *Journal) closeReaders() {
	for _, readers := range []chan *conn{j.readers, j.urgentReaders} {
		for range readerCount {
			if conn := <-readers; conn != nil {
				_ = conn.Close() // it only read
			}
		}
		close(readers)
	}
}
