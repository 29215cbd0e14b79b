package folder

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/catalog"
)

// startable are the flows that a server starts by name: the files of its folder, and those that were applied. A file
// comes before an applied flow with the same name.
type startable struct {
	*catalog.Catalog
	folder *Folder
}

// Apply implements api.Catalog.
func (n startable) Apply(ctx context.Context, r api.ApplyRequest) (api.Flow, error) {
	for _, f := range n.folder.Flows(ctx) {
		if f.Name == r.Definition.Name {
			return api.Flow{}, &api.Error{
				Code: api.CodeConflict, Message: fmt.Sprintf("the server starts flow %q from %s", f.Name, f.File),
				Hint: "change that file: it is read again when it has changed",
			}
		}
	}
	return n.Catalog.Apply(ctx, r)
}

// Flows implements api.Catalog.
func (n startable) Flows(ctx context.Context) ([]api.Flow, error) {
	applied, err := n.Catalog.Flows(ctx)
	all := n.folder.Flows(ctx)
	files := slices.Clone(all)
	for _, f := range applied {
		at := slices.IndexFunc(files, func(file api.Flow) bool { return file.Name == f.Name })
		if at >= 0 {
			f.Problem = "the server starts " + files[at].File + " instead"
		}
		all = append(all, f)
	}
	slices.SortFunc(all, inOrder)
	return all, err
}

// Flow implements api.Catalog.
func (n startable) Flow(ctx context.Context, name string, version int) (api.Flow, error) {
	for _, f := range n.folder.Flows(ctx) {
		if version != 0 || f.Name != name || f.Problem != "" {
			continue
		}
		d, err := n.folder.Find(ctx, name)
		f.Definition, f.Kind, f.Source = d.ID, d.Kind, d.Source
		return f, err
	}
	return n.Catalog.Flow(ctx, name, version)
}
