// Package caller has what a command gives to another process that executes the steps of its runs: its environment, the
// sources of its secrets, its working folder, and its limits. They are kept in memory only.
package caller

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl/internal/secret"
)

// Form is what a command sends over the socket beside the database.
type Form struct {
	Environment []string          `json:"environment"`       // all of it, NAME=value
	Secrets     map[string]string `json:"secrets,omitempty"` // the sources by name
	Allowed     []string          `json:"allowed,omitempty"` // values of --env-allow; none: all are inherited
	Dir         string            `json:"dir"`               // its working folder
	Limits      []string          `json:"limits,omitempty"`  // limits of its processes; see Limits
	User        int               `json:"user"`              // -1: the system has no such numbers
	Process     int               `json:"process"`           // its process id, for people
	Resumes     []string          `json:"resumes,omitempty"` // runs that it will carry on, to be told what differs
}

// Told answers a Form.
type Told struct {
	// Caller names the caller in later requests. Empty: steps run as the process that has the engine would run them.
	Caller string `json:"caller"`
	Server bool   `json:"server"` // the process that has the engine is a server
	// Differs are the names of variables, by run, that had other values for whoever the run was carried on for.
	Differs map[string][]string `json:"differs,omitempty"`
}

// Header names the caller in requests over the socket.
const Header = "Pawl-Caller"

// Caller is whom a family of runs is carried on for.
type Caller struct {
	Form
	Store     *secret.Store // its secrets, and what steps inherit of its environment
	inherited []string
}

// Own returns the caller that this process itself is. Its environment is read anew for each attempt.
func Own(store *secret.Store) (*Caller, error) {
	dir, err := os.Getwd()
	return &Caller{Form: Form{Dir: dir, User: os.Getuid(), Process: os.Getpid()}, Store: store}, err
}

// Inherited returns the variables that steps get of the environment. nil: those of this process.
func (c *Caller) Inherited() []string {
	if c == nil {
		return nil
	}
	return c.inherited
}

// Path returns where a relative path leads for the caller; empty: its folder. The folder of a container is left as it
// is.
func (c *Caller) Path(dir string, container bool) string {
	if c == nil || c.Environment == nil || container || filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(c.Dir, dir)
}

// Names returns the names of the variables that steps inherit.
func (c *Caller) Names() []string {
	entries := c.inherited
	if c.Environment == nil {
		entries = passed(os.Environ(), c.Store)
	}
	return namesOf(entries)
}

func passed(environment []string, store *secret.Store) []string {
	return slices.DeleteFunc(slices.Clone(environment), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return !store.Passes(name)
	})
}

func namesOf(entries []string) []string {
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		if name, _, _ := strings.Cut(entry, "="); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// StoreOf makes the store of secrets of a form.
func StoreOf(f *Form) (*secret.Store, error) {
	sources := map[string]secret.Source{}
	for name, from := range f.Secrets {
		name, source, err := secret.ParseSource(name + "=" + from)
		if err != nil {
			return nil, err
		}
		sources[name] = source
	}
	store := secret.NewStore(sources)
	store.Hide(secret.OwnValues(f.Environment)...)
	if len(f.Allowed) > 0 {
		if err := store.AllowEnv(f.Allowed...); err != nil {
			return nil, err
		}
	}
	store.In(f.Environment, f.Dir)
	return store, nil
}

// mostCallers bounds the environments that a process keeps. A caller that comes again with the same one is not kept
// twice.
const mostCallers = 1000

// Register has the callers of a process. Its methods are safe for concurrent use.
type Register struct {
	own *Caller

	mu   sync.RWMutex
	kept map[string]*Caller
}

// NewRegister returns a register of the callers beside the process itself.
func NewRegister(own *Caller) *Register { return &Register{own: own, kept: map[string]*Caller{}} }

// Keep keeps a caller, and returns its name.
func (t *Register) Keep(f Form) (string, error) {
	if own := os.Getuid(); f.User != own {
		return "", fmt.Errorf("the process that has the database belongs to user %d, and this command to user %d: its "+
			"steps would run as the other one; use another --database", own, f.User)
	}
	store, err := StoreOf(&f)
	if err != nil {
		return "", err
	}
	f.Resumes = nil
	c := &Caller{Form: f, Store: store, inherited: passed(f.Environment, store)}
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, known := range t.kept {
		if same(&known.Form, &f) {
			return name, nil
		}
	}
	if len(t.kept) >= mostCallers {
		return "", fmt.Errorf("the process that has the database keeps the environments of %d commands, and takes no "+
			"more; wait until it has ended, or use another --database", mostCallers)
	}
	name := rand.Text()
	t.kept[name] = c
	return name, nil
}

func same(a, b *Form) bool {
	return slices.Equal(a.Environment, b.Environment) && maps.Equal(a.Secrets, b.Secrets) && a.Dir == b.Dir &&
		slices.Equal(a.Allowed, b.Allowed) && slices.Equal(a.Limits, b.Limits) && a.Process == b.Process
}

// Of returns a caller by its name; an empty one is the process itself. nil: it is not known.
func (t *Register) Of(name string) *Caller {
	if name == "" {
		return t.own
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.kept[name]
}

// Differs returns the names of the variables in which two callers differ, without those that every shell has of its
// own.
func Differs(a, b *Caller) []string {
	of := func(c *Caller) map[string]string {
		entries := c.inherited
		if c.Environment == nil {
			entries = passed(os.Environ(), c.Store)
		}
		out := map[string]string{}
		for _, entry := range entries {
			name, value, _ := strings.Cut(entry, "=")
			out[name] = value
		}
		return out
	}
	var names []string
	before, after := of(a), of(b)
	for name, value := range before {
		if now, set := after[name]; !set || now != value {
			names = append(names, name)
		}
	}
	for name := range after {
		if _, set := before[name]; !set {
			names = append(names, name)
		}
	}
	return Telling(names)
}

// ofShells are variables that differ from one shell to the next and mean nothing to steps.
var ofShells = []string{"_", "SHLVL", "PWD", "OLDPWD", "WINDOWID", "SSH_TTY", "GPG_TTY", "STY", "TMUX", "TMUX_PANE"}

// Telling returns the names that are worth telling of, sorted.
func Telling(names []string) []string {
	names = slices.DeleteFunc(slices.Sorted(slices.Values(names)), func(name string) bool {
		return slices.Contains(ofShells, name)
	})
	return slices.Compact(names)
}

type key struct{}

// With puts the name of a caller into a context.
func With(ctx context.Context, name string) context.Context {
	if name == "" {
		return ctx
	}
	return context.WithValue(ctx, key{}, name)
}

// From returns the name of the caller in a context; empty: the process itself is.
func From(ctx context.Context) string {
	name, _ := ctx.Value(key{}).(string)
	return name
}
