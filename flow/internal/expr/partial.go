package expr

import "strings"

// Partial evaluates a template as far as only the known variables are needed. Of the rest it leaves the expressions as
// they are written. The error is the first one of an expression that could be evaluated.
func (t *Template) Partial(s Scope, known Vars) (any, error) {
	switch {
	case t.constant != nil:
		return t.value, nil
	case t.placeholder != nil:
		name := "env."
		if t.placeholder.kind == RefersSecret {
			name = "secrets."
		}
		return opening + " " + name + t.placeholder.name + " }}", nil
	case t.parts != nil:
		return t.partialText(s, known)
	case t.expr != nil:
		if t.expr.Needs(known) {
			return opening + " " + strings.TrimSpace(t.expr.text) + " }}", nil
		}
		v, err := t.expr.Run(s)
		if err != nil {
			return nil, t.fail(err)
		}
		if !t.asText {
			return v, nil
		}
		text, err := writtenAs(v)
		if err != nil {
			return nil, t.fail(err)
		}
		return text, nil
	default:
		return t.collect(func(t *Template) (any, error) { return t.Partial(s, known) })
	}
}

func (t *Template) partialText(s Scope, known Vars) (any, error) {
	var b strings.Builder
	for _, part := range t.parts {
		v, err := part.Partial(s, known)
		if err != nil {
			return nil, err
		}
		text, err := writtenAs(v)
		if err != nil {
			return nil, part.fail(err)
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// Needs reports whether an expression needs more than the known variables.
func (p *Program) Needs(known Vars) bool { return p.vars&^known != 0 || len(p.own) > 0 }
