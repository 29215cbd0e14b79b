// Package disktest is the disk under SQLite files in tests. It records what SQLite writes and syncs, and makes from
// that what a power cut may leave. It also makes operations slow, or makes them fail.
//
// SQLite thinks that every sync took place. The machine's own disk does not sync at all, so tests are quick.
package disktest

import (
	"path/filepath"
	"sync"
	"testing"
)

// Op is an operation on a file.
type Op int

// The operations. Truncating a file is a Write.
const (
	Open Op = iota
	Read
	Write
	Sync
)

// Disk is a directory whose SQLite files are recorded.
type Disk struct {
	dir string

	mu     sync.Mutex
	fault  func(op Op, file string) error
	start  map[string][]byte // the files when the power came on
	events []event
}

type kind int

const (
	created kind = iota
	written
	truncated
	synced
	removed
	marked
)

// event is an operation on a file, or a mark of the test.
type event struct {
	kind    kind
	file    string
	at      int64  // offset of a write; new size of a truncation
	data    []byte // the written bytes
	durable bool   // a removal that survives a power cut
	mark    any
}

// New returns a disk whose files are in a new directory.
func New(t testing.TB) *Disk {
	t.Helper()
	layer.once.Do(install)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := &Disk{dir: dir, start: map[string][]byte{}}
	layer.mu.Lock()
	layer.disks[dir] = d
	layer.mu.Unlock()
	t.Cleanup(func() {
		layer.mu.Lock()
		delete(layer.disks, dir)
		layer.mu.Unlock()
	})
	return d
}

// Path returns the path of a file on the disk.
func (d *Disk) Path(file string) string { return filepath.Join(d.dir, file) }

// Fault sets a function that is called before each operation. It may wait, which makes the operation slow. If it
// returns an error, the operation fails: SQLite learns that it failed, but not why.
func (d *Disk) Fault(fault func(op Op, file string) error) {
	d.mu.Lock()
	d.fault = fault
	d.mu.Unlock()
}

// Mark records that something has happened in the test, such as an acknowledgement. [Disk.Cut] returns the marks that
// came before the cut.
func (d *Disk) Mark(mark any) { d.record(event{kind: marked, mark: mark}) }

func (d *Disk) record(e event) {
	d.mu.Lock()
	d.events = append(d.events, e)
	d.mu.Unlock()
}
