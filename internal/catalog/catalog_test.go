package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/catalog"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/journal/sqlite"
)

// each runs a test with every journal that needs no server.
func each(t *testing.T, test func(t *testing.T, c *catalog.Catalog)) {
	t.Helper()
	for name, open := range map[string]func(t *testing.T) journal.Journal{
		"memory": func(*testing.T) journal.Journal { return memory.New() },
		"sqlite": func(t *testing.T) journal.Journal {
			j, err := sqlite.Open(filepath.Join(t.TempDir(), "x.db"), sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = j.Close() })
			return j
		},
	} {
		t.Run(name, func(t *testing.T) {
			check := func(d api.Definition) error {
				if d.Source == "bad" {
					return &api.Error{Code: api.CodeInvalid, Message: "it is bad"}
				}
				return nil
			}
			now := api.Time(0)
			test(t, catalog.New(open(t).(journal.Documents), check, func() api.Time { now++; return now }))
		})
	}
}

func apply(t *testing.T, c *catalog.Catalog, name, source string) api.Flow {
	t.Helper()
	f, err := c.Apply(t.Context(), api.ApplyRequest{
		Definition: api.Definition{ID: "id of " + source, Kind: "flow", Name: name, Source: source}, Actor: "ada",
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestVersions(t *testing.T) {
	each(t, func(t *testing.T, c *catalog.Catalog) {
		if f := apply(t, c, "order", "one"); f.Version != 1 || !f.New || f.Source != "" || f.Actor != "ada" {
			t.Errorf("the first version is %+v", f)
		}
		if f := apply(t, c, "order", "one"); f.Version != 1 || f.New {
			t.Errorf("the same again is %+v", f)
		}
		if f := apply(t, c, "order", "two"); f.Version != 2 || !f.New {
			t.Errorf("the second version is %+v", f)
		}
		if f := apply(t, c, "order", "one"); f.Version != 3 {
			t.Errorf("an earlier text is %+v: it is newer than the second one", f)
		}
		apply(t, c, "order/a b", "three") // a name that has the characters of keys
		for version, source := range map[int]string{0: "one", 1: "one", 2: "two", 3: "one"} {
			if f, err := c.Flow(t.Context(), "order", version); err != nil || f.Source != source {
				t.Errorf("version %d is %+v, %v; want %q", version, f, err, source)
			}
		}
		if f, err := c.Flow(t.Context(), "order/a b", 0); err != nil || f.Source != "three" {
			t.Errorf("%+v, %v", f, err)
		}
		all, err := c.Flows(t.Context())
		if err != nil || len(all) != 2 || all[0].Name != "order" || all[0].Version != 3 || all[0].Source != "" {
			t.Errorf("the flows are %+v, %v", all, err)
		}
		versions, err := c.Versions(t.Context(), "order")
		if err != nil || len(versions) != 3 || versions[0].Version != 3 || versions[2].Version != 1 {
			t.Errorf("the versions are %+v, %v", versions, err)
		}
	})
}

func TestRefused(t *testing.T) {
	each(t, func(t *testing.T, c *catalog.Catalog) {
		apply(t, c, "order", "one")
		ctx := t.Context()
		_, bad := c.Apply(ctx, api.ApplyRequest{Definition: api.Definition{Name: "order", Source: "bad"}})
		_, nameless := c.Apply(ctx, api.ApplyRequest{Definition: api.Definition{ID: "x"}})
		_, version := c.Flow(ctx, "order", 2)
		_, name := c.Flow(ctx, "ordr", 0)
		_, numbered := c.Flow(ctx, "ordr", 1)
		_, versions := c.Versions(ctx, "orde")
		for what, got := range map[string]struct {
			err  error
			code api.Code
		}{
			"a bad text": {bad, api.CodeInvalid}, "no name": {nameless, api.CodeInvalid},
			"no such version": {version, api.CodeNotFound}, "no such flow": {name, api.CodeNotFound},
			"a version of no flow": {numbered, api.CodeNotFound}, "versions of no flow": {versions, api.CodeNotFound},
			"the beginning of a name": {versions, api.CodeNotFound},
		} {
			if !errors.Is(got.err, api.Sentinel(got.code)) {
				t.Errorf("%s: %v", what, got.err)
			}
		}
		if all, err := c.Versions(ctx, "order"); err != nil || len(all) != 1 {
			t.Errorf("something was kept: %+v, %v", all, err)
		}
	})
}

// TestMany checks that a list longer than one reading of documents is complete, and that concurrent calls of Apply
// lose nothing.
func TestMany(t *testing.T) {
	each(t, func(t *testing.T, c *catalog.Catalog) {
		const writers, versions = 4, 130
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				for i := range versions {
					d := api.Definition{ID: fmt.Sprint(w, i), Name: "order", Source: fmt.Sprint(w, i)}
					if _, err := c.Apply(context.Background(), api.ApplyRequest{Definition: d}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		for i := range 501 {
			apply(t, c, fmt.Sprintf("flow-%03d", i), "one")
		}
		found, err := c.Versions(t.Context(), "order")
		if err != nil || len(found) != writers*versions {
			t.Fatalf("%d versions, %v", len(found), err)
		}
		for i, f := range found {
			if f.Version != writers*versions-i {
				t.Fatalf("at %d is version %d", i, f.Version)
			}
		}
		if flows, err := c.Flows(t.Context()); err != nil || len(flows) != 502 {
			t.Errorf("%d flows, %v", len(flows), err)
		}
	})
}
