package folder

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/catalog"
	"github.com/pawl-dev/pawl/internal/journal"
	flowkind "github.com/pawl-dev/pawl/internal/kind/flow"
	"github.com/pawl-dev/pawl/internal/tree"
)

// startable are the flows that a server starts by name: the files of its folder, and those that were applied. A file
// comes before an applied flow with the same name.
type startable struct {
	*catalog.Catalog
	folder *Folder
}

func (n startable) Apply(ctx context.Context, r api.ApplyRequest) (api.Flow, error) {
	for _, f := range n.folder.Flows() {
		if f.Name == r.Definition.Name {
			return api.Flow{}, &api.Error{
				Code: api.CodeConflict, Message: fmt.Sprintf("the server starts flow %q from %s", f.Name, f.File),
				Hint: "change that file: it is read again when it has changed",
			}
		}
	}
	return n.Catalog.Apply(ctx, r)
}

func (n startable) Flows(ctx context.Context) ([]api.Flow, error) {
	applied, err := n.Catalog.Flows(ctx)
	all := n.folder.Flows()
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

func (n startable) Flow(ctx context.Context, name string, version int) (api.Flow, error) {
	f, err := n.find(ctx, name, version)
	if err == nil {
		f.Input = inputOf(f)
	}
	return f, err
}

// inputOf returns the JSON Schema of a flow's input, or nil if it has none, or is not a flow.
func inputOf(f api.Flow) json.RawMessage {
	source := []byte(f.Source)
	read, err := flowkind.Read(journal.Definition{ID: flow.ID(source), Kind: f.Kind, Name: f.Name, Source: source})
	if err != nil || read.Document.Input.IsZero() {
		return nil
	}
	return inOrderOf(read.Document.Input)
}

// inOrderOf writes a value as JSON, with the fields of mappings in the order of the flow: a form has them so.
func inOrderOf(v tree.Value) []byte {
	parts := [][]byte{}
	switch {
	case v.IsMapping():
		for _, f := range v.Fields() {
			parts = append(parts, slices.Concat(tree.JSON(f.Name), []byte(":"), inOrderOf(f.Value)))
		}
		return slices.Concat([]byte("{"), bytes.Join(parts, []byte(",")), []byte("}"))
	case v.IsList():
		for _, item := range v.Items() {
			parts = append(parts, inOrderOf(item))
		}
		return slices.Concat([]byte("["), bytes.Join(parts, []byte(",")), []byte("]"))
	default:
		return tree.JSON(v.Any())
	}
}

// find returns a version of a flow with its source; 0: the newest.
func (n startable) find(ctx context.Context, name string, version int) (api.Flow, error) {
	for _, f := range n.folder.Flows() {
		if version != 0 || f.Name != name || f.Problem != "" {
			continue
		}
		d, err := n.folder.Find(ctx, name)
		f.Definition, f.Kind, f.Source = d.ID, d.Kind, d.Source
		return f, err
	}
	return n.Catalog.Flow(ctx, name, version)
}
