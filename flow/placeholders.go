package flow

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"regexp"
	"slices"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/secret"
	"github.com/pawl-dev/pawl/internal/tree"
)

// secrets reads the names of the secrets that steps may refer to.
func (p *parsing) secrets(n *tree.Node) []string {
	names, places := p.texts(n, "secrets")
	for i, name := range names {
		if problem := nameProblem(name); problem != "" {
			p.Fail(places[i], "", "the name of a secret, %q, %s", tree.Shorten(name), problem)
		}
		if slices.Contains(names[:i], name) {
			p.Fail(places[i], "", "the secret %q is named twice", name)
		}
		declare(p, expr.RefersSecret, name, places[i])
	}
	return names
}

// referTo names a secret or a variable of the environment.
func referTo(kind byte, name string) string { return string(kind) + name }

// declare notes where a secret or a variable of the environment is declared.
func declare(p *parsing, kind byte, name string, at tree.Pos) {
	if p.doc.declared == nil {
		p.doc.declared = map[string]tree.Pos{}
	}
	p.doc.declared[referTo(kind, name)] = at
}

// dotenvOf reads the paths of files with variables.
func dotenvOf(p *parsing, n *tree.Node) []string {
	paths, places := p.texts(n, "dotenv")
	for i, path := range paths {
		if expr.HasExpression(path) {
			p.Fail(places[i], "", "dotenv names files; no expressions stand in it")
		}
	}
	return paths
}

// variableName matches the name of a variable of the environment.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// variables reads the variables that steps may refer to: their names, or a mapping from names to defaults.
func (p *parsing) variables(n *tree.Node) map[string]*string {
	if n == nil || n.Kind == tree.Null {
		return nil
	}
	out := map[string]*string{}
	add := func(name string, at tree.Pos, value *string) {
		if !variableName.MatchString(name) {
			p.Fail(at, "", "%q is not the name of an environment variable", tree.Shorten(name))
		}
		out[name] = value
		declare(p, expr.RefersEnv, name, at)
	}
	if n.Kind != tree.Mapping {
		names, places := p.texts(n, "env")
		for i, name := range names {
			add(name, places[i], nil)
		}
		return out
	}
	for _, f := range n.Fields {
		var value *string
		if f.Value.Kind != tree.Null {
			if text, err := tree.TextOf(f.Value.AsWritten().Any()); err == nil && f.Value.Kind != tree.List &&
				f.Value.Kind != tree.Mapping {
				value = &text
			} else {
				p.Fail(f.Value.Pos, "", "the default of %s is a text, not %s", f.Name, f.Value.Kind)
			}
			if expr.HasExpression(f.Value.Text) {
				p.Fail(f.Value.Pos, "a step's exec has an env: of its own",
					"env at the top names variables of the environment; its values are defaults, without expressions")
			}
		}
		add(f.Name, f.Pos, value)
	}
	return out
}

// refers checks a placeholder, and notes that the step has one.
func (b *builder) refers(kind byte, name string) (problem, hint string) {
	b.placeholders = true
	b.def.refers[referTo(kind, name)] = true
	if kind == expr.RefersSecret {
		if slices.Contains(b.doc.Secrets, name) {
			return "", ""
		}
		if hint = nearest.Hint(name, b.doc.Secrets); hint == "" {
			hint = "declare it at the top: secrets: [" + name + "]"
		}
		return "the flow declares no secret \"" + name + "\"", hint
	}
	if _, known := b.doc.Env[name]; known {
		return "", ""
	}
	if hint = nearest.Hint(name, slices.Sorted(maps.Keys(b.doc.Env))); hint == "" {
		hint = "declare it at the top: env: [" + name + "]"
	}
	return "the flow declares no variable \"" + name + "\" of the environment", hint
}

// Placeholder writes a placeholder into the task that is made.
func (s *scope) Placeholder(kind byte, name string) string {
	if s.mark == "" {
		return ""
	}
	return secret.Placeholder(s.mark, kind, name)
}

// payloadOf makes the payload of an attempt. Its placeholders begin with a mark that cannot occur elsewhere in it: the
// hash of the payload without them.
func (p *plan) payloadOf(sc *scope) ([]byte, error) {
	payload, err := p.payload.AppendJSON(nil, sc)
	if err != nil || !p.refers {
		return payload, err
	}
	sum := sha256.Sum256(payload)
	sc.mark = secret.Mark(hex.EncodeToString(sum[:16]))
	if payload, err = p.payload.AppendJSON(payload[:0], sc); err != nil {
		return nil, err
	}
	r := secret.Placeholders{Mark: sc.mark, Files: sc.def.doc.Dotenv}
	for name, value := range sc.def.doc.Env {
		if value != nil {
			if r.Defaults == nil {
				r.Defaults = map[string]string{}
			}
			r.Defaults[name] = *value
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	payload = append(payload[:len(payload)-1], `,"placeholders":`...)
	return append(append(payload, text...), '}'), nil
}

// variables adds to the payload of a process the variables that all processes of the flow get.
func (b *builder) variables(o *expr.Object) {
	values := map[string]any{}
	for name, value := range b.doc.Env {
		if value != nil {
			values[name] = *value
		}
	}
	if len(values) > 0 {
		o.Data("defaults", V(values))
	}
	if len(b.doc.Dotenv) > 0 {
		o.Data("dotenv", V(b.doc.Dotenv))
	}
}

// encodeEnv writes the variables as they are read.
func encodeEnv(env map[string]*string) tree.Value {
	out := object{}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if value := env[name]; value != nil {
			out.must(name, V(*value))
		} else {
			out.must(name, V(nil))
		}
	}
	return out.value()
}
