package disktest

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// unit is the amount that a disk writes at once, or not at all. A write of several units may be cut anywhere between
// them.
const unit = 512

// file is a file as the disk and the system's memory have it.
type file struct {
	onDisk   bool    // its name survives a power cut
	removed  bool    // the system has removed its name
	syncsDir bool    // its next sync also syncs the directory
	durable  []byte  // its contents as of the last sync
	pending  []event // the writes and truncations since then, oldest first
}

// CutAnywhere returns a random number of events after which the power may be cut.
func (d *Disk) CutAnywhere(random *rand.Rand) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return random.IntN(len(d.events) + 1)
}

// Cut returns a new disk with the contents that remain if the power is cut after that many events, and the marks that
// came before. What was synced is left. Any part of later writes may be there: each unit on its own, in any order.
func (d *Disk) Cut(t testing.TB, events int, random *rand.Rand) (left *Disk, marks []any) {
	t.Helper()
	d.mu.Lock()
	happened := slices.Clone(d.events[:events])
	d.mu.Unlock()

	files := directory{}
	for name, contents := range d.start {
		files[name] = &file{onDisk: true, durable: bytes.Clone(contents)}
	}
	for _, e := range happened {
		if e.kind == marked {
			marks = append(marks, e.mark)
		} else {
			files.happen(e)
		}
	}
	left = New(t)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		contents, ok := files[name].after(random)
		if !ok {
			continue
		}
		left.start[name] = contents
		if err := os.WriteFile(left.Path(name), contents, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return left, marks
}

// directory has the files by name.
type directory map[string]*file

// happen applies an event.
func (d directory) happen(e event) {
	f := d[e.file]
	if f == nil {
		f = &file{}
		d[e.file] = f
	}
	switch e.kind {
	case created:
		if f.removed { // the old file with this name never comes back
			*f = file{}
		}
		// SQLite syncs the directory with the first sync of a journal or a log that it has opened.
		f.syncsDir = strings.HasSuffix(e.file, "-journal") || strings.HasSuffix(e.file, "-wal")
	case written, truncated:
		f.pending = append(f.pending, e)
	case synced:
		for _, p := range f.pending {
			f.durable = p.apply(f.durable)
		}
		f.pending, f.onDisk = nil, true
		if f.syncsDir {
			f.syncsDir = false
			d.sync()
		}
	case removed:
		f.removed = true
		if e.durable {
			d.sync()
		}
	case marked: // it changes nothing
	}
}

// sync makes the names durable.
func (d directory) sync() {
	for _, f := range d {
		f.onDisk = !f.removed
	}
}

// after returns the contents of a file after the power was cut; false: the file is not there.
func (f *file) after(random *rand.Rand) ([]byte, bool) {
	switch {
	case f.removed && !f.onDisk:
		return nil, false
	case f.removed || !f.onDisk: // it was removed or created, and the directory may be on the disk or not
		if random.IntN(2) == 0 {
			return nil, false
		}
	}
	contents := bytes.Clone(f.durable)
	// Sometimes nearly everything arrived, sometimes nearly nothing.
	chance := []float64{0, 0.1, 0.5, 0.9, 1}[random.IntN(5)]
	for _, e := range f.pending {
		for _, part := range e.units() {
			if random.Float64() < chance {
				contents = part.apply(contents)
			}
		}
	}
	if size := f.size(); size > len(contents) && random.IntN(2) == 0 { // the system knew the length, not the contents
		contents = append(contents, make([]byte, size-len(contents))...)
	}
	return contents, true
}

// size returns the length of the file in the system's view.
func (f *file) size() int {
	size := len(f.durable)
	for _, e := range f.pending {
		if e.kind == truncated {
			size = int(e.at)
		} else {
			size = max(size, int(e.at)+len(e.data))
		}
	}
	return size
}

// apply returns the contents of a file after the event.
func (e *event) apply(contents []byte) []byte {
	end := int(e.at) + len(e.data)
	if end > len(contents) {
		contents = append(contents, make([]byte, end-len(contents))...)
	}
	if e.kind == truncated {
		return contents[:e.at]
	}
	copy(contents[e.at:], e.data)
	return contents
}

// units returns the parts of a write that arrive separately.
func (e event) units() (parts []event) {
	if e.kind == truncated {
		return []event{e}
	}
	at, data := e.at, e.data
	for len(data) > 0 {
		n := min(unit-int(at)%unit, len(data))
		parts = append(parts, event{kind: written, at: at, data: data[:n]})
		at, data = at+int64(n), data[n:]
	}
	return parts
}
