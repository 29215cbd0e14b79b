package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/daemon/database"
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

// openNamespaces opens the databases of the namespaces that a server has beside the default one.
func (a serverVerbs) openNamespaces(ctx context.Context, m *machine, g *guarding) error {
	places, err := m.place.Namespaces("--"+namespacesFlag, g.namespaces)
	if err != nil {
		return asUsage(err)
	}
	for _, p := range places {
		if err := a.openNamespace(ctx, m, g, p); err != nil {
			return fmt.Errorf("the namespace %s: %w", p.Namespace, err)
		}
	}
	return nil
}

// openNamespace opens the database of a namespace, and lets requests of the server reach it.
func (a serverVerbs) openNamespace(ctx context.Context, m *machine, g *guarding, p database.Place) error {
	j, err := p.Open(ctx)
	if err != nil {
		return err
	}
	in := &machine{place: p, journal: j}
	cfg, err := a.configOf(ctx, in, true)
	if err != nil {
		return errors.Join(err, j.Close())
	}
	if err := m.Add(ctx, cfg); err != nil {
		return err
	}
	if m.others = append(m.others, in.gateway); m.sdks != nil {
		m.sdks.Add(in.gateway)
	}
	g.opened = append(g.opened, p)
	g.log.Info("serving a namespace", "namespace", p.Namespace, "database", p.Name())
	return nil
}

// reloadNamespaces opens namespaces that are new in the configuration. A namespace that was removed from it, or has
// another database there, stays as it is until a restart.
func (a serverVerbs) reloadNamespaces(ctx context.Context, m *machine, g *guarding) {
	if !g.fromFile(namespacesFlag) {
		return
	}
	places, err := m.place.Namespaces("--"+namespacesFlag, g.settings[namespacesFlag])
	if err != nil {
		g.log.Error("the namespaces stay as they were", "id", "namespaces-unchanged", "error", err)
		return
	}
	kept := 0
	for _, p := range places {
		at := slices.IndexFunc(g.opened, func(there database.Place) bool { return there.Namespace == p.Namespace })
		if at >= 0 {
			if g.opened[at].Same(p) {
				kept++
			}
			continue
		}
		if err := a.openNamespace(ctx, m, g, p); err != nil {
			g.log.Error("a namespace was not opened", "id", "namespace-not-opened",
				"namespace", p.Namespace, "error", err)
			continue
		}
		kept++
	}
	if kept != len(g.opened) {
		g.log.Warn("a change of the configuration needs a restart", "key", namespacesFlag)
	}
}
