package issuer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/api"
)

// claims are a token's claims about its bearer.
type claims map[string]any

// at returns the claim with a name. A name with dots is also a path through claims within others.
func (c claims) at(name string) any {
	if v, ok := c[name]; ok {
		return v
	}
	first, rest, ok := strings.Cut(name, ".")
	within, is := c[first].(map[string]any)
	if !ok || !is {
		return nil
	}
	return claims(within).at(rest)
}

// values returns the texts of a claim: a single text, the elements of a list, or the keys of an object.
func (c claims) values(name string) []string {
	switch v := c.at(name).(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, item := range v {
			if text, ok := item.(string); ok {
				out = append(out, text)
			}
		}
		return out
	case map[string]any:
		return slices.Sorted(maps.Keys(v))
	}
	return nil
}

// text returns a claim that is a text.
func (c claims) text(name string) string {
	text, _ := c.at(name).(string)
	return text
}

// nameOf returns the name of somebody, who is the actor in the histories of runs.
func (i *Issuer) nameOf(subject string, c claims) string {
	if i.cfg.NameClaim != "" {
		return c.text(i.cfg.NameClaim)
	}
	if verified, said := c["email_verified"].(bool); said && !verified || c.text("email") == "" {
		return subject
	}
	return c.text("email")
}

// who returns the token that somebody would have here. Error: CodeForbidden.
func (i *Issuer) who(subject string, c claims) (api.Token, error) {
	name := i.nameOf(subject, c)
	out := api.Token{ID: access.ForeignID(i.cfg.URL, subject), Name: name}
	if err := access.CheckName(name); err != nil {
		return out, &api.Error{
			Code: api.CodeForbidden, Message: fmt.Sprintf("%q cannot be the name of somebody here: %v", name, err),
			Hint: "--oidc-name-claim says which claim is the name",
		}
	}
	has := c.values(i.cfg.RolesClaim)
	for _, r := range i.rules {
		if slices.Contains(has, r.value) {
			out.Role, out.Namespace = r.role, r.namespace
			return out, nil
		}
	}
	said := "has no claim " + i.cfg.RolesClaim
	if len(has) > 0 {
		said = fmt.Sprintf("has %s: %.500s", i.cfg.RolesClaim, strings.Join(has, ", "))
	}
	return out, &api.Error{
		Code: api.CodeForbidden, Message: fmt.Sprintf("%s has no role here: the token %s", name, said),
		Hint: "whoever runs the server gives one of these values a role with --oidc-role, or the issuer gives " + name +
			" one that has a role",
	}
}
