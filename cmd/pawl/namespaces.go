package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/metrics"
	"github.com/pawl-dev/pawl/internal/tree"
)

// namespacesFlag is the flag that names a server's namespaces beside the default one.
const namespacesFlag = "namespaces"

// namespacesIn reads a mapping from names to databases as values of the flag.
func namespacesIn(mapping tree.Value) []string {
	var out []string
	for _, f := range mapping.Fields() {
		if f.Value.Any() == nil {
			out = append(out, f.Name)
			continue
		}
		out = append(out, f.Name+"="+fmt.Sprint(f.Value.Any()))
	}
	return out
}

// namespacePlaces returns the databases of namespaces, as values of the flag name them. own is the server's database.
func namespacePlaces(own place, values []string) ([]place, error) {
	var out []place
	for _, value := range values {
		name, database, given := strings.Cut(value, "=")
		if err := access.CheckNamespace(name); err != nil {
			return nil, usage("--%s: %v", namespacesFlag, err)
		}
		p, err := own.beside(name)
		if given {
			p, err = parsePlace(namespacesFlag, database)
		}
		if err != nil {
			return nil, err
		}
		p.namespace = name
		if name == api.DefaultNamespace {
			return nil, usage("--%s: default is the namespace of the server's own database", namespacesFlag)
		}
		for _, other := range append(slices.Clip(out), own) {
			if other.namespace == name {
				return nil, usage("--%s: the namespace %s is named twice", namespacesFlag, name)
			}
			if !p.memory && p.identity() == other.identity() {
				return nil, usage("--%s: %s has the database of another namespace, %s", namespacesFlag, name,
					p.name())
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// identity returns the same text for two places that are one database.
func (p place) identity() string {
	if p.server == "" {
		if whole, err := filepath.Abs(p.path); err == nil {
			return whole
		}
		return p.path
	}
	u, err := url.Parse(p.server)
	if err != nil {
		return p.server
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
func (p place) beside(namespace string) (place, error) {
	switch {
	case p.memory:
		return place{memory: true}, nil
	case p.server == "":
		extension := filepath.Ext(p.path)
		path := strings.TrimSuffix(p.path, extension) + "." + namespace + extension
		return place{path: path, partitions: p.partitions}, nil
	}
	u, err := url.Parse(p.server)
	if err != nil {
		return place{}, errors.New("the address of the database is not understood")
	}
	q := u.Query()
	q.Set("schema", schemaOf(u)+"_"+strings.ReplaceAll(namespace, "-", "_"))
	u.RawQuery = q.Encode()
	return place{server: u.String()}, nil
}

// metricsOf returns the metrics of the namespace whose database lies at a place. The default one is opened first.
func (a *app) metricsOf(p place) *metrics.Metrics {
	if p.namespace == "" {
		a.metrics = metrics.New(buildVersion())
		return a.metrics
	}
	return a.metrics.In(p.namespace)
}

// openNamespaces opens the databases of the namespaces that a server has beside the default one.
func (a *app) openNamespaces(ctx context.Context, m *machine, g *guarding) error {
	m.namespaces, m.lost = map[string]*machine{}, make(chan error, 1)
	places, err := namespacePlaces(m.place, g.namespaces)
	if err != nil {
		return err
	}
	for _, p := range places {
		if err := a.openNamespace(ctx, m, p); err != nil {
			return fmt.Errorf("the namespace %s: %w", p.namespace, err)
		}
		g.log.Info("serving a namespace", "namespace", p.namespace, "database", p.name())
	}
	return nil
}

// openNamespace opens the database of a namespace, with an engine, workers' queues and webhooks of its own, and lets
// requests of the server reach it.
func (a *app) openNamespace(ctx context.Context, m *machine, p place) error {
	j, err := p.openToWrite(ctx)
	if err != nil {
		return err
	}
	other, err := a.assemble(p, j, true, nil)
	if err != nil {
		return err
	}
	err = a.open(ctx, other, true)
	if other.signals != nil {
		signal.Stop(other.signals) // the default namespace has those of the process
	}
	if err != nil {
		return errors.Join(err, other.close())
	}
	m.serving.AddNamespace(other.serving.Server)
	if other.sharing != nil {
		if err := other.sharing.enter(ctx, other); err != nil {
			return errors.Join(err, other.close())
		}
	}
	m.namespaces[p.namespace] = other
	go func() {
		<-other.Done()
		select {
		case m.lost <- fmt.Errorf("the namespace %s: %w\nWhat was acknowledged is safe; start it again",
			p.namespace, other.Err()):
		default: // another one has ended before, or the server ends
		}
	}()
	return nil
}

// reloadNamespaces opens namespaces that are new in the configuration. One that is gone from it, or has another
// database there, stays as it is until a restart.
func (a *app) reloadNamespaces(ctx context.Context, m *machine, g *guarding) {
	if !g.fromFile(namespacesFlag) {
		return
	}
	places, err := namespacePlaces(m.place, g.settings[namespacesFlag])
	if err != nil {
		g.log.Error("the namespaces stay as they were", "error", err)
		return
	}
	kept := 0
	for _, p := range places {
		if there := m.namespaces[p.namespace]; there != nil {
			if there.place.identity() == p.identity() {
				kept++
			}
			continue
		}
		if err := a.openNamespace(ctx, m, p); err != nil {
			g.log.Error("a namespace was not opened", "namespace", p.namespace, "error", err)
			continue
		}
		kept++
		g.log.Info("serving a namespace", "namespace", p.namespace, "database", p.name())
	}
	if kept != len(m.namespaces) {
		g.log.Warn("a change of the configuration needs a restart", "key", namespacesFlag)
	}
}
