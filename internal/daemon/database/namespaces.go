package database

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/api"
)

// Namespaces returns the databases of namespaces beside one, from the values of a setting: NAME, whose database is
// beside p, or NAME=DATABASE.
func (p Place) Namespaces(setting string, values []string) ([]Place, error) {
	var out []Place
	for _, value := range values {
		name, text, given := strings.Cut(value, "=")
		if err := access.CheckNamespace(name); err != nil {
			return nil, fmt.Errorf("%s: %w", setting, err)
		}
		in, err := p.beside(name)
		if given {
			in, err = Parse(setting, text)
		}
		if err != nil {
			return nil, err
		}
		in.Namespace = name
		if name == api.DefaultNamespace {
			return nil, fmt.Errorf("%s: default is the namespace of the server's own database", setting)
		}
		for _, other := range append(slices.Clip(out), p) {
			if other.Namespace == name {
				return nil, fmt.Errorf("%s: the namespace %s is named twice", setting, name)
			}
			if !in.Memory && in.Same(other) {
				return nil, fmt.Errorf("%s: %s has the database of another namespace, %s", setting, name, in.Name())
			}
		}
		out = append(out, in)
	}
	return out, nil
}

// Same reports whether two places are one database.
func (p Place) Same(other Place) bool { return p.identity() == other.identity() }

// identity returns the same text for two places that are one database.
func (p Place) identity() string {
	if p.Server == "" {
		if whole, err := filepath.Abs(p.Path); err == nil {
			return whole
		}
		return p.Path
	}
	u, err := url.Parse(p.Server)
	if err != nil {
		return p.Server
	}
	return u.Host + u.Path + "?" + schemaOf(u)
}

// schemaOf returns the schema that an address of PostgreSQL names.
func schemaOf(u *url.URL) string {
	if schema := u.Query().Get("schema"); schema != "" {
		return schema
	}
	if first, _, _ := strings.Cut(u.Query().Get("search_path"), ","); first != "" {
		return strings.Trim(strings.TrimSpace(first), `"`)
	}
	return "pawl"
}

// beside returns the place of a namespace whose database is not named: another file in the same folder, or another
// schema of the same PostgreSQL database.
func (p Place) beside(namespace string) (Place, error) {
	switch {
	case p.Memory:
		return Place{Memory: true}, nil
	case p.Server == "":
		extension := filepath.Ext(p.Path)
		path := strings.TrimSuffix(p.Path, extension) + "." + namespace + extension
		return Place{Path: path, partitions: p.partitions}, nil
	}
	u, err := url.Parse(p.Server)
	if err != nil {
		return Place{}, errors.New("the address of the database is not understood")
	}
	q := u.Query()
	q.Set("schema", schemaOf(u)+"_"+strings.ReplaceAll(namespace, "-", "_"))
	u.RawQuery = q.Encode()
	return Place{Server: u.String()}, nil
}
