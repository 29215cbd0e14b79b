package main

import (
	"context"
	"fmt"
	"os"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
	"github.com/pawl-dev/pawl/internal/secret"
)

// secretStore finds the secrets that --secret names.
func (a *app) secretStore() (*secret.Store, error) {
	sources := map[string]secret.Source{}
	for _, text := range a.secrets {
		name, source, err := secret.ParseSource(text)
		if err != nil {
			return nil, usage("--secret: %w", err)
		}
		sources[name] = source
	}
	store := secret.NewStore(sources)
	store.Hide(secret.OwnValues(os.Environ())...)
	if len(a.envAllow) > 0 {
		if err := store.AllowEnv(a.envAllow...); err != nil {
			return nil, usage("--env-allow: %w", err)
		}
	}
	return store, nil
}

// checkPlaceholders refuses to carry on runs of a flow whose secrets cannot be had here: waiting does not cure that,
// and the attempts would be used up. Where somebody else may execute the steps, it prints what this process does not
// know.
func (a *app) checkPlaceholders(ctx context.Context, doc *flow.Document, carry bool) error {
	store, err := a.secretStore()
	if err != nil || a.server != "" || doc == nil {
		return err
	}
	must := carry && !a.joined && !flowkind.Elsewhere(doc)
	for _, name := range doc.Secrets {
		unknown := fmt.Sprintf("the secret %q is not known here; say where it comes from: "+
			"--secret %s=env:VARIABLE, file:PATH or command:LINE", screen.Clean(name), screen.Clean(name))
		switch {
		case !store.Has(name) && must:
			return usage("%s", unknown)
		case !store.Has(name):
			fmt.Fprintf(a.Err, "pawl: %s\n", unknown)
		case must:
			if _, err := store.Value(ctx, name); err != nil {
				return asUsage(err)
			}
		}
	}
	files, err := store.ReadFiles(doc.Dotenv)
	switch {
	case err != nil && must:
		return asUsage(err)
	case err != nil:
		fmt.Fprintf(a.Err, "pawl: %s\n", screen.Clean(err.Error()))
	}
	for name, value := range doc.Env {
		_, set := os.LookupEnv(name)
		if _, given := files[name]; !set && !given && value == nil {
			fmt.Fprintf(a.Err, "pawl: the environment variable %s is not set here\n", screen.Clean(name))
		}
	}
	return nil
}

// checkResumed does so for runs that are to be carried on.
func (a *app) checkResumed(ctx context.Context, svc api.Service, ids []string) error {
	seen := map[string]bool{}
	for _, id := range ids {
		r, err := svc.Run(ctx, id)
		if err != nil {
			return err
		}
		a.told[id] = r.Events // earlier events are not printed again
		if seen[r.Definition] {
			continue
		}
		seen[r.Definition] = true
		c, err := a.definitionOf(ctx, svc, r.Definition)
		if err != nil {
			continue // the engine reports why it cannot be read
		}
		if err := a.checkPlaceholders(ctx, c.Doc, true); err != nil {
			return err
		}
	}
	return nil
}
