package secret

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Find returns the value of a secret.
type Find func(ctx context.Context, name string) (string, error)

// Source is where the value of a secret comes from.
type Source struct {
	kind, at string // env, file or command, and which
}

// ParseSource reads NAME=env:VARIABLE, NAME=file:PATH or NAME=command:LINE. NAME alone means the variable of that name.
func ParseSource(text string) (name string, s Source, err error) {
	name, from, given := strings.Cut(text, "=")
	if !given {
		from = "env:" + name
	}
	s.kind, s.at, _ = strings.Cut(from, ":")
	if name == "" || s.at == "" || !slices.Contains([]string{"env", "file", "command"}, s.kind) {
		return "", s, fmt.Errorf("a secret is NAME=env:VARIABLE, NAME=file:PATH or NAME=command:LINE, not %q", text)
	}
	return name, s, nil
}

// Store finds secrets and remembers their values, to recognise them in data from outside. It is safe for concurrent
// use. The zero value has no secrets.
type Store struct {
	find    Find
	sources map[string]Source
	allowed []string // variables that steps may have; nil: all that are not secret
	// environment is that of whoever gave the sources; nil: that of this process. dir is the folder that paths count
	// from; empty: that of this process.
	environment map[string]string
	dir         string

	mu     sync.Mutex
	values []string // all that were found in this process
	hidden []string // secrets that no step refers to
	redact *Redactor
}

// NewStore returns a store of secrets with these sources.
func NewStore(sources map[string]Source) *Store { return &Store{sources: sources} }

// StoreOf returns a store of the secrets that a function finds.
func StoreOf(find Find) *Store { return &Store{find: find} }

// In makes the store read variables in another environment than that of this process, and files and commands in another
// folder. Call it before the store is used.
func (s *Store) In(environment []string, dir string) {
	s.environment, s.dir = make(map[string]string, len(environment)), dir
	for _, entry := range environment {
		name, value, _ := strings.Cut(entry, "=")
		s.environment[name] = value
	}
}

// lookup returns the value of a variable.
func (s *Store) lookup(name string) (value string, set bool) {
	if s == nil || s.environment == nil {
		return os.LookupEnv(name)
	}
	value, set = s.environment[name]
	return value, set
}

// path returns where a path leads from the store's folder.
func (s *Store) path(name string) string {
	if s == nil || s.dir == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(s.dir, name)
}

// Has reports whether the store knows where the value of the secret comes from.
func (s *Store) Has(name string) bool {
	_, known := s.sources[name]
	return known || s.find != nil
}

// Names returns the names of the secrets that have a source.
func (s *Store) Names() []string { return slices.Sorted(maps.Keys(s.sources)) }

// readFrom returns the secret that is read from an environment variable; empty: none is.
func (s *Store) readFrom(variable string) (name string) {
	if s == nil {
		return ""
	}
	for of, source := range s.sources {
		same := source.at == variable || runtime.GOOS == "windows" && strings.EqualFold(source.at, variable)
		if source.kind == "env" && same && (name == "" || of < name) {
			name = of
		}
	}
	return name
}

// minValue is how long a secret is at least, in bytes. A shorter one cannot be taken out of output without spoiling it.
const minValue = 4

// maxValues bounds the values that are remembered.
const maxValues = 1000

// errNone is the error of a secret without a source.
var errNone = errors.New("it is not known here; say where it comes from: --secret NAME=env:VARIABLE, " +
	"NAME=file:PATH or NAME=command:LINE")

// Value returns the value of a secret.
func (s *Store) Value(ctx context.Context, name string) (string, error) {
	value, err := s.read(ctx, name)
	if err != nil {
		return "", fmt.Errorf("the secret %q: %w", name, err)
	}
	if len(value) < minValue {
		return "", fmt.Errorf("the secret %q is shorter than %d bytes, so it cannot be kept out of output", name,
			minValue)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.values, value) {
		if len(s.values) >= maxValues {
			s.values = s.values[1:]
		}
		s.values = append(slices.Clone(s.values), value)
		s.redact = NewRedactor(slices.Concat(s.hidden, s.values))
	}
	return value, nil
}

// Check returns why a secret is not available, as far as that is known at once: a command that prints one is not run.
func (s *Store) Check(ctx context.Context, name string) error {
	if s == nil {
		s = &Store{}
	}
	if source, known := s.sources[name]; known && source.kind == "command" || !known && s.find != nil {
		return nil
	}
	_, err := s.Value(ctx, name)
	return err
}

// Redactor returns a redactor of the values that were found so far. nil: there are none.
func (s *Store) Redactor() *Redactor {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.redact
}

func (s *Store) read(ctx context.Context, name string) (string, error) {
	source, known := s.sources[name]
	switch {
	case known:
		return s.valueOf(ctx, source)
	case s.find != nil:
		return s.find(ctx, name)
	default:
		return "", errNone
	}
}

// maxCommand is how long a command may take that prints a secret. After its end, processes that it has started may
// hold its output open for commandEnds more.
const (
	maxCommand  = time.Minute
	commandEnds = time.Second
)

func (s *Store) valueOf(ctx context.Context, from Source) (string, error) {
	switch from.kind {
	case "env":
		value, set := s.lookup(from.at)
		if !set {
			return "", fmt.Errorf("the environment variable %s is not set", from.at)
		}
		return value, nil
	case "file":
		text, err := os.ReadFile(s.path(from.at))
		return line(text), err
	default:
		ctx, cancel := context.WithTimeout(ctx, maxCommand)
		defer cancel()
		args := []string{"/bin/sh", "-c", from.at}
		if runtime.GOOS == "windows" {
			args = []string{"cmd", "/C", from.at}
		}
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.WaitDelay, cmd.Dir = commandEnds, s.dir
		for name, value := range s.environment {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		text, err := cmd.Output()
		if errors.Is(err, exec.ErrWaitDelay) {
			err = nil // it has succeeded, and something that it leaves behind has its output
		}
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return "", errors.New("its command did not end in time; it may take a minute at most")
		}
		if err != nil {
			return "", fmt.Errorf("its command failed: %w", err) // its output may hold the value
		}
		return line(text), nil
	}
}

// line leaves out the line break with which a file or an output ends.
func line(text []byte) string {
	return string(bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r")))
}
