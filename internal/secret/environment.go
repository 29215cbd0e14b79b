package secret

import (
	"fmt"
	"net/url"
	"path"
	"runtime"
	"slices"
	"strings"
)

// IsOwn reports whether an environment variable configures Pawl itself, its PostgreSQL client, or the destination of
// its traces. Such variables have addresses with passwords, tokens and keys, and none goes to a step.
func IsOwn(name string) bool {
	name = strings.ToUpper(name)
	switch {
	case strings.HasPrefix(name, "PAWL_"), name == "NOTIFY_SOCKET", name == "CREDENTIALS_DIRECTORY":
		return true
	case strings.HasPrefix(name, "PG"):
		return !strings.HasPrefix(name, "PGP_") // a variable of another program
	default:
		return strings.HasPrefix(name, "OTEL_") && strings.HasSuffix(name, "HEADERS")
	}
}

// OwnValues returns the secret values of Pawl's own variables in an environment: passwords, tokens, the values of
// headers, and the passwords in addresses.
func OwnValues(environment []string) []string {
	var out []string
	for _, entry := range environment {
		name, value, _ := strings.Cut(entry, "=")
		name = strings.ToUpper(name)
		has := func(words ...string) bool {
			return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(name, w) })
		}
		switch {
		case !IsOwn(name) || has("FILE"):
		case strings.HasSuffix(name, "HEADERS"):
			for header := range strings.SplitSeq(value, ",") {
				_, v, _ := strings.Cut(header, "=")
				if plain, err := url.PathUnescape(v); err == nil {
					out = append(out, strings.TrimSpace(plain))
				}
				out = append(out, strings.TrimSpace(v))
			}
		case has("PASSWORD", "TOKEN", "SECRET", "_KEY"):
			out = append(out, value)
		default:
			out = append(out, passwordIn(value)...)
		}
	}
	return slices.DeleteFunc(out, func(v string) bool { return len(v) < minValue })
}

// passwordIn returns the password in the address of a database, in its written and its decoded form.
func passwordIn(address string) []string {
	u, err := url.Parse(address)
	if err != nil {
		return nil
	}
	plain, has := u.User.Password()
	if !has {
		if plain = u.Query().Get("password"); plain == "" {
			return nil
		}
	}
	_, written, _ := strings.Cut(u.User.String(), ":")
	return []string{plain, written}
}

// Hide makes the store recognise values in the output of steps, although no step refers to them.
func (s *Store) Hide(values ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hidden = append(s.hidden, values...)
	s.redact = NewRedactor(slices.Concat(s.hidden, s.values))
}

// alwaysPassed are the variables that steps inherit whatever the list of allowed ones contains.
var alwaysPassed = []string{"PATH", "HOME", "USER", "LANG", "LC_*", "TZ", "TMPDIR", "SYSTEMROOT", "PATHEXT", "COMSPEC"}

// AllowEnv bounds what steps inherit of the environment, and may refer to, to variables with these names. A name may
// contain *.
func (s *Store) AllowEnv(names ...string) error {
	for _, name := range names {
		if _, err := path.Match(name, ""); err != nil || name == "" {
			return fmt.Errorf("%q is not the name of a variable; write NAME or PREFIX_*", name)
		}
	}
	s.allowed = append(slices.Clone(alwaysPassed), names...)
	return nil
}

// Passes reports whether steps inherit an environment variable. A nil store keeps back Pawl's own.
func (s *Store) Passes(name string) bool {
	if IsOwn(name) || s.readFrom(name) != "" {
		return false
	}
	return s == nil || s.allowed == nil || slices.ContainsFunc(s.allowed, func(one string) bool {
		if runtime.GOOS == "windows" {
			one, name = strings.ToUpper(one), strings.ToUpper(name)
		}
		same, _ := path.Match(one, name) // AllowEnv has refused anything that is not a pattern
		return same
	})
}
