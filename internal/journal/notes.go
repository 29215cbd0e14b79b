package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// saveEvery is how often notes are written. What was seen after that is known to the other nodes, and to the database.
const saveEvery = time.Second

// Notes keep what this process has seen of a database, and write it beside the process's state. They are safe for
// concurrent use.
type Notes struct {
	path string // empty: they end with the process

	mu      sync.Mutex
	seen    Seen
	news    bool // something is not written yet
	changes int  // grows when others tell of another server or generation

	over, done chan struct{}
}

// OpenNotes reads the notes in a file, and keeps it up to date until Close. An empty path is no file.
func OpenNotes(path string) (*Notes, error) {
	n := &Notes{path: path}
	if path == "" {
		return n, nil
	}
	var err error
	if n.seen, err = ReadNotes(path); err != nil {
		return nil, err
	}
	n.over, n.done = make(chan struct{}), make(chan struct{})
	go n.run()
	return n, nil
}

// ReadNotes reads the notes in a file. A file that is not there has seen nothing.
func ReadNotes(path string) (seen Seen, err error) {
	if path == "" {
		return Seen{}, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Seen{}, nil
	}
	if err == nil {
		seen, err = DecodeSeen(text)
	}
	if err != nil {
		return Seen{}, fmt.Errorf("what was seen of the database cannot be read from %s: %w (if the database is the "+
			"right one, remove that file)", path, err)
	}
	return seen, nil
}

// Seen returns a copy of what was seen.
func (n *Notes) Seen() Seen {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen.Clone()
}

// Stand returns where a partition stood when it was seen last, and in which generation.
func (n *Notes) Stand(partition int) (Stand, Generation) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen.Partitions[partition], n.seen.Generation
}

// Note adds where a partition stands.
func (n *Notes) Note(partition int, is Stand) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.news = n.seen.Note(partition, is) || n.news
}

// Learn adds what others have seen.
func (n *Notes) Learn(others ...Seen) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range others {
		was, before := n.seen.Generation, n.primaries()
		if n.seen.Learn(&others[i]) {
			n.news = true
			if n.seen.Generation != was || n.primaries() != before {
				n.changes++
			}
		}
	}
}

// primaries returns the primaries as a text that can be compared.
func (n *Notes) primaries() string { return fmt.Sprint(n.seen.Primaries) }

// Changes counts how often others have told of another server or generation than was known.
func (n *Notes) Changes() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changes
}

// Found adds what a database shows that was compared.
func (n *Notes) Found(found Seen) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen.Found(&found)
	n.news = true
}

// Begin makes the notes those of a database with this id. What was seen of another one does not concern it.
func (n *Notes) Begin(database string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen.Database != "" && n.seen.Database != database {
		n.seen = Seen{}
	}
	n.seen.Database = database
	n.news = true
}

// Forget drops all that was seen, for a database that was accepted, and notes what it shows instead.
func (n *Notes) Forget(found Seen) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen, n.news = found.Clone(), true
	n.changes++
}

// run writes the notes from time to time.
func (n *Notes) run() {
	defer close(n.done)
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = n.save() // the next try may succeed, and Close returns the error
		case <-n.over:
			return
		}
	}
}

// save writes the notes if there is something new. Another process may have written the file meanwhile: what it has
// seen stays.
func (n *Notes) save() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.news {
		return nil
	}
	if others, err := ReadNotes(n.path); err == nil {
		n.seen.Learn(&others)
	}
	text, err := n.seen.Encode()
	if err == nil {
		err = replace(n.path, text)
	}
	n.news = err != nil
	return err
}

// replace writes a file in one step: a process that is killed leaves the old one or the new one.
func replace(path string, text []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Close writes what is new and ends. It may be called again.
func (n *Notes) Close() error {
	if n.path == "" {
		return nil
	}
	select {
	case <-n.over:
		return nil
	default:
		close(n.over)
	}
	<-n.done
	return n.save()
}
