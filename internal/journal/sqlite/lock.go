package sqlite

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Holder is the process that holds a database.
type Holder struct {
	PID     int       `json:"pid"`
	Command string    `json:"command,omitempty"`
	Since   core.Time `json:"since,omitempty"` // zero: unknown
}

// HeldError means that another process, or another part of this one, holds the database. It is journal.ErrHeld.
type HeldError struct {
	Path   string
	Holder Holder // zero: it is not known
}

func (e *HeldError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "database %s is held by ", e.Path)
	if e.Holder.PID == 0 {
		b.WriteString("another process")
	} else {
		fmt.Fprintf(&b, "pid %d", e.Holder.PID)
	}
	if e.Holder.Command != "" {
		fmt.Fprintf(&b, " (%s)", e.Holder.Command)
	}
	if e.Holder.Since != 0 {
		fmt.Fprintf(&b, " since %s", e.Holder.Since.Std().Format(time.DateTime+" UTC"))
	}
	b.WriteString("; stop it or wait")
	return b.String()
}

// Unwrap makes errors.Is(err, journal.ErrHeld) true.
func (e *HeldError) Unwrap() error { return journal.ErrHeld }

// lockFile is the lock file next to a database. The operating system releases the lock when the process ends, for
// whatever reason.
type lockFile struct {
	f    *os.File
	path string
}

// looks is how often an opener tries again because others only look whether the database is held. They need
// microseconds.
const looks = 1000

// lock takes the lock of the database at path, or returns who has it.
func lock(path string, h Holder) (*lockFile, error) {
	name := path + ".lock"
	for look := 0; ; {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		held, err := tryLock(f, false)
		if held && look < looks {
			// A holder does not share the lock, but readers do.
			if held, err = tryLock(f, true); err == nil && !held {
				look++
				f.Close()
				time.Sleep(time.Millisecond)
				continue
			}
		}
		if err != nil || held {
			holder := readHolder(f)
			f.Close()
			if err != nil {
				return nil, fmt.Errorf("lock %s: %w", name, err)
			}
			return nil, &HeldError{Path: path, Holder: holder}
		}
		if !sameFile(f, name) { // its last holder removed the file between our open and our lock
			f.Close()
			continue
		}
		l := &lockFile{f, name}
		if err := l.write(h); err != nil {
			l.release()
			return nil, err
		}
		return l, nil
	}
}

func (l *lockFile) write(h Holder) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	_, err = l.f.WriteAt(append(text, '\n'), 0)
	if err != nil && isNoSpace(err) {
		return nil // a full disk must not keep a database from being opened; others do not see our pid then
	}
	return err
}

// release removes the file before it releases the lock, so that no process can lock a file that is being removed.
func (l *lockFile) release() {
	os.Remove(l.path)
	l.f.Close()
}

// Held returns who holds the database at path, if a process does.
func Held(path string) (Holder, bool) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR, 0)
	if err != nil {
		return Holder{}, false
	}
	defer f.Close() // releases the lock, if it was free
	if held, err := tryLock(f, true); err != nil || !held {
		return Holder{}, false
	}
	return readHolder(f), true
}

func readHolder(f *os.File) (h Holder) {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 64<<10))
	if err == nil && json.Unmarshal(text, &h) != nil {
		h = Holder{}
	}
	return h
}

func sameFile(f *os.File, name string) bool {
	ours, err := f.Stat()
	if err != nil {
		return false
	}
	theirs, err := os.Stat(name)
	return err == nil && os.SameFile(ours, theirs)
}

// commandLine returns how this process was called, for Holder.
func commandLine() string {
	const most = 100
	text := strings.Join(append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...), " ")
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "…"
	}
	return text
}
