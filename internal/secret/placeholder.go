package secret

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// Kinds of placeholders.
const (
	OfSecret = 's'
	OfEnv    = 'e'
)

// end closes a placeholder.
const end = "\ue001"

// Placeholder writes a placeholder of a secret or a variable into a task. mark is the task's own, so that no data of
// the task can be taken for a placeholder.
func Placeholder(mark string, kind byte, name string) string { return mark + string(kind) + name + end }

// Mark begins the placeholders of a task whose content has that hash, in hexadecimal digits.
func Mark(hash string) string { return "\ue000" + hash }

// Placeholders are a task's data about its placeholders. The zero value has none.
type Placeholders struct {
	Mark     string            `json:"mark"`
	Defaults map[string]string `json:"defaults,omitempty"` // values for variables that may not be set
	Files    []string          `json:"files,omitempty"`    // files with further values, which come before the defaults
}

// Fill puts values in the place of the placeholders in texts.
func (r *Placeholders) Fill(ctx context.Context, store *Store, texts ...*string) error {
	if r == nil || r.Mark == "" {
		return nil
	}
	for _, text := range texts {
		filled, err := r.fill(ctx, store, *text)
		if err != nil {
			return err
		}
		*text = filled
	}
	return nil
}

func (r *Placeholders) fill(ctx context.Context, store *Store, text string) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, r.Mark)
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		placeholder, after, closed := strings.Cut(rest, end)
		if !closed || placeholder == "" {
			return "", fmt.Errorf("a placeholder in the task does not end")
		}
		value, err := r.value(ctx, store, placeholder[0], placeholder[1:])
		if err != nil {
			return "", err
		}
		out.WriteString(value)
		text = after
	}
}

func (r *Placeholders) value(ctx context.Context, store *Store, kind byte, name string) (string, error) {
	if kind == OfSecret {
		if store == nil {
			store = &Store{}
		}
		return store.Value(ctx, name)
	}
	if value, set := store.lookup(name); set {
		if of := store.readFrom(name); of != "" {
			return store.Value(ctx, of) // so that it is removed from output
		}
		if !store.Passes(name) {
			return "", fmt.Errorf("the environment variable %s is not passed to steps; --env-allow says which "+
				"are, and none that configures Pawl itself is", name)
		}
		return value, nil
	}
	values, err := store.ReadFiles(r.Files)
	if err != nil {
		return "", err
	}
	if value, given := values[name]; given {
		return value, nil
	}
	if value, given := r.Defaults[name]; given {
		return value, nil
	}
	return "", fmt.Errorf("the environment variable %s is not set in the process that executes the step", name)
}

// FillMap puts values in the place of the placeholders in the values of a map.
func (r *Placeholders) FillMap(ctx context.Context, store *Store, m map[string]string) error {
	for name, text := range m {
		if err := r.Fill(ctx, store, &text); err != nil {
			return err
		}
		m[name] = text
	}
	return nil
}

// FillJSON puts values in the place of the placeholders in the texts of JSON data.
func (r *Placeholders) FillJSON(ctx context.Context, store *Store, data json.RawMessage) (json.RawMessage, error) {
	if r == nil || r.Mark == "" || !strings.Contains(string(data), r.Mark) {
		return data, nil
	}
	return rewrite(data, func(text string) (string, error) { return r.fill(ctx, store, text) })
}
