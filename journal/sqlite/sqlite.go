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
	// Command tells people which process holds the file. Defaults to this process's command line.
	Command string
	// Since tells them since when. Zero: the holder's description leaves it out.
	Since core.Time
}

// Journal is a journal in a SQLite file. It is safe for concurrent use.
type Journal struct {
	path     string
	readOnly bool
	lock     *lockFile
	seed     uint32      // of checksums in the file
	file     os.FileInfo // as it was opened; nil: read-only

	mu         sync.Mutex         // serialises writing: SQLite has one writer
	w          *writer            // nil: read-only, or closed
	partitions map[int]*partition // that somebody owns
	lost       error              // why nothing is written any more

	readers chan *conn    // nil: to be opened by whoever takes it
	closing chan struct{} // closed by Close
	check   checkpointer
}

// partition is what the writer knows of a partition. No other process writes the file, so this is the truth.
type partition struct {
	epoch, first, last, through uint64
	owner                       string
	feeds                       map[string]journal.Feed // never changed in place
}

// writerCache is how many bytes of pages the writer keeps. What it writes it appends, and what it looks up by a name
// stands in the system's cache: 32 MiB made nothing cheaper, and each page takes twice its size of memory.
const writerCache = 8 << 20

// readerCount is how many reads go on at once; more wait.
const readerCount = 2

// Open opens the database at path, creating it where there is none, and holds it until Close.
// Errors: *HeldError (journal.ErrHeld), journal.ErrNoJournal, ErrNewer, ErrReadOnly, ErrCorrupt, ErrFull.
func Open(path string, o Options) (*Journal, error) {
	if path == "" {
		return nil, errors.New("journal: open: the database's file has no name: write it like sqlite:shop.db")
	}
	j := newJournal(path)
	if o.Command == "" {
		o.Command = commandLine()
	}
	if dir := filepath.Dir(path); !isDir(dir) {
		return nil, fmt.Errorf("journal: open %s: there is no directory %s: create it first", path, dir)
	}
	if isDir(path) {
		return nil, isDirectory(path)
	}
	if err := writable(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s: %w (make the file writable for this user)", journal.ErrReadOnly, path, err)
	}
	l, err := lock(path, Holder{PID: os.Getpid(), Command: o.Command, Since: o.Since})
	if err != nil {
		if held := (*HeldError)(nil); errors.As(err, &held) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: open %s: %w (make its directory writable for this user)", journal.ErrReadOnly, path, err)
	}
	j.lock = l
	if err := j.open(); err != nil {
		j.close()
		return nil, j.wrap("open", err)
	}
	go j.check.run(j)
	return j, nil
}

// OpenReadOnly opens the database at path for looking, whether or not another process holds it. Acquire, Append and
// Prune answer journal.ErrReadOnly.
func OpenReadOnly(path string) (*Journal, error) {
	j := newJournal(path)
	j.readOnly = true
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("journal: open %s: %w", path, err)
	}
	if isDir(path) {
		return nil, isDirectory(path)
	}
	err := j.read(context.Background(), func(c *conn) error {
		empty, err := j.identify(c)
		if err == nil && empty {
			err = fmt.Errorf("%w: %s is empty; the first run that is started with it makes it one", journal.ErrNoJournal, path)
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
		path:       path,
		partitions: map[int]*partition{},
		readers:    make(chan *conn, readerCount),
		closing:    make(chan struct{}),
	}
	for range readerCount {
		j.readers <- nil
	}
	return j
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func isDirectory(path string) error {
	return fmt.Errorf("%w: %s is a directory; name a file in it", journal.ErrNoJournal, path)
}

// Path returns the file's path.
func (j *Journal) Path() string { return j.path }

// open opens the writer's and the checkpointer's connections, and creates the file's contents where there are none.
func (j *Journal) open() error {
	conn, err := openConn(j.path, sqlite.OpenReadWrite|sqlite.OpenCreate, writerCache)
	if err != nil {
		return err
	}
	j.w = &writer{conn: conn, names: map[string]int64{}, definitions: map[core.DefinitionID]definition{}}
	if j.file, err = os.Stat(j.path); err != nil {
		return err
	}
	// Only now is it sure that the file is ours to change.
	empty, err := j.identify(conn)
	if err != nil {
		return err
	}
	if err := makeDurable(conn); err != nil {
		return err
	}
	if empty {
		err = create(conn)
	} else if err = refreshViews(conn); err == nil {
		err = refreshKeyIndex(conn)
	}
	if err != nil {
		return err
	}
	if err := j.w.prepare(); err != nil {
		return err
	}
	j.check.conn, err = openConn(j.path, sqlite.OpenReadWrite, slackCache)
	if err != nil {
		return err
	}
	j.check.conn.SetBusyTimeout(0) // a reader's snapshot is not waited for: appends would wait, too
	j.check.poke, j.check.done = make(chan struct{}, 1), make(chan struct{})
	return nil
}

// Close ends the journal. What was appended is durable already; Close folds the write-ahead log into the file, so that
// one file is all there is.
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
		return nil // the log stays beside the file, and the next Open reads it
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
	for range readerCount {
		if conn := <-j.readers; conn != nil {
			_ = conn.Close() // it only read
		}
	}
	close(j.readers)
}
