package main

import (
	"fmt"
	"os"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
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

// warnOfPlaceholders prints which secrets and variables of a flow this process does not know: steps that refer to them
// fail here.
func (a *app) warnOfPlaceholders(c *compiled) error {
	store, err := a.secretStore()
	if err != nil || a.server != "" {
		return err
	}
	for _, name := range c.doc.Secrets {
		if !store.Has(name) {
			fmt.Fprintf(a.Err, "pawl: the secret %q is not known here; say where it comes from: "+
				"--secret %s=env:VARIABLE, file:PATH or command:LINE\n", screen.Clean(name), screen.Clean(name))
		}
	}
	for name, value := range c.doc.Env {
		if _, set := os.LookupEnv(name); !set && value == nil {
			fmt.Fprintf(a.Err, "pawl: the environment variable %s is not set here\n", screen.Clean(name))
		}
	}
	return nil
}
