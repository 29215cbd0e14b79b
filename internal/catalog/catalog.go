// Package catalog keeps the flows that were applied to a database, as documents beside the runs: by name, with all
// their versions.
package catalog

import (
	"context"
	"fmt"
	"net/url"
	"sync"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/nearest"
)

const (
	documentVersion = 1 // version of the stored form

	newestPrefix  = "flows/"        // + a name: its newest version, without the source
	versionPrefix = "flowversions/" // + a name, "/" and a number: that version
	atOnce        = 500             // documents are read
	mostVersions  = 10_000
)

// Catalog keeps the flows of a database. A definition is checked once, when it is applied.
type Catalog struct {
	documents journal.Documents
	check     func(d api.Definition) error
	now       func() api.Time

	applying sync.Mutex
}

var _ api.Catalog = (*Catalog)(nil)

// New returns the catalog of a database. check refuses definitions that cannot be started.
func New(documents journal.Documents, check func(d api.Definition) error, now func() api.Time) *Catalog {
	return &Catalog{documents: documents, check: check, now: now}
}

func (c *Catalog) Apply(ctx context.Context, r api.ApplyRequest) (api.Flow, error) {
	d := r.Definition
	if d.Name == "" {
		return api.Flow{}, &api.Error{Code: api.CodeInvalid, Message: "the definition has no name"}
	}
	if err := c.check(d); err != nil {
		return api.Flow{}, err
	}
	c.applying.Lock()
	defer c.applying.Unlock()
	before, err := c.newest(ctx, d.Name)
	if err != nil {
		return api.Flow{}, err
	}
	if before.Definition == d.ID {
		return before, nil
	}
	if before.Version >= mostVersions {
		return api.Flow{}, &api.Error{
			Code: api.CodeFull, ID: d.Name, Message: fmt.Sprintf("it has %d versions", mostVersions),
			Hint: "give the flow another name",
		}
	}
	f := api.Flow{
		Name: d.Name, Version: before.Version + 1, Definition: d.ID, AppliedAt: c.now(), Actor: r.Actor,
		Reason: r.Reason, Kind: d.Kind,
	}
	head, err := journal.EncodeDocument(documentVersion, f)
	if err != nil {
		return api.Flow{}, err
	}
	f.Source = d.Source
	whole, err := journal.EncodeDocument(documentVersion, f)
	if err != nil {
		return api.Flow{}, err
	}
	err = c.documents.PutDocuments(ctx, journal.Document{Key: newestPrefix + url.PathEscape(d.Name), Value: head},
		journal.Document{Key: versionKey(d.Name, f.Version), Value: whole})
	f.Source, f.New = "", true
	return f, failed(err)
}

func (c *Catalog) Flows(ctx context.Context) ([]api.Flow, error) {
	all := []api.Flow{}
	for from := newestPrefix; ; {
		found, err := c.documents.FindDocuments(ctx, from, after(newestPrefix), false, atOnce)
		if err != nil {
			return nil, failed(err)
		}
		for _, d := range found {
			f, err := read(d)
			if err != nil {
				return nil, err
			}
			all = append(all, f)
			from = d.Key + "\x00"
		}
		if len(found) < atOnce {
			return all, nil
		}
	}
}

func (c *Catalog) Versions(ctx context.Context, name string) ([]api.Flow, error) {
	all := []api.Flow{}
	prefix := versionPrefix + url.PathEscape(name) + "/"
	for before := after(prefix); ; {
		found, err := c.documents.FindDocuments(ctx, prefix, before, true, atOnce)
		if err != nil {
			return nil, failed(err)
		}
		for _, d := range found {
			f, err := read(d)
			if err != nil {
				return nil, err
			}
			f.Source = ""
			all = append(all, f)
			before = d.Key
		}
		if len(found) < atOnce {
			break
		}
	}
	if len(all) == 0 {
		return nil, c.unknown(ctx, name)
	}
	return all, nil
}

func (c *Catalog) Flow(ctx context.Context, name string, version int) (api.Flow, error) {
	newest, err := c.newest(ctx, name)
	switch {
	case err != nil:
		return api.Flow{}, err
	case newest.Version == 0:
		return api.Flow{}, c.unknown(ctx, name)
	case version == 0:
		version = newest.Version
	}
	found, err := c.documents.ReadDocuments(ctx, versionKey(name, version))
	switch {
	case err != nil:
		return api.Flow{}, failed(err)
	case len(found) > 0:
		return read(found[0])
	default:
		return api.Flow{}, &api.Error{
			Code: api.CodeNotFound, Message: fmt.Sprintf("flow %q has no version %d", name, version),
			Hint: "pawl flow versions " + name + " lists them",
		}
	}
}

// newest returns the newest version without its source; without a version, there is none.
func (c *Catalog) newest(ctx context.Context, name string) (api.Flow, error) {
	found, err := c.documents.ReadDocuments(ctx, newestPrefix+url.PathEscape(name))
	if err != nil || len(found) == 0 {
		return api.Flow{}, failed(err)
	}
	return read(found[0])
}

// unknown returns the error for a name that no flow has.
func (c *Catalog) unknown(ctx context.Context, name string) error {
	err := &api.Error{
		Code:    api.CodeNotFound,
		Message: fmt.Sprintf("there is no flow %q, and no process serves a workflow of that name", name),
		Hint:    "pawl flow apply FILE makes one of a file, and a Go program serves its own with pawlhttp.Serve",
	}
	if all, listed := c.Flows(ctx); listed == nil {
		var names []string
		for _, f := range all {
			names = append(names, f.Name)
		}
		if hint := nearest.Hint(name, names); hint != "" {
			err.Hint = hint
		}
	}
	return err
}

func versionKey(name string, version int) string {
	return fmt.Sprintf("%s%s/%010d", versionPrefix, url.PathEscape(name), version)
}

// after returns the first key that comes after all those with a prefix that ends with "/".
func after(prefix string) string { return prefix[:len(prefix)-1] + "0" }

func read(d journal.Document) (f api.Flow, err error) {
	if err = journal.DecodeDocument(d.Value, documentVersion, &f); err != nil {
		err = &api.Error{
			Code: api.CodeStorage, Message: fmt.Sprintf("the document %s cannot be read: %v", d.Key, err), Err: err,
		}
	}
	return f, err
}

func failed(err error) error {
	if err == nil || api.CodeOf(err) != api.CodeInternal {
		return err
	}
	code := api.CodeStorage
	if journal.Stalls(err) {
		code = api.CodeStalled
	}
	return &api.Error{Code: code, Message: "the flows cannot be read or written: " + err.Error(), Err: err}
}
