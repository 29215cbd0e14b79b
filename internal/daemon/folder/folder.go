package folder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/catalog"
	"github.com/pawl-dev/pawl/internal/daemon/workflows"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/scheduled"
	"github.com/pawl-dev/pawl/internal/server"
)

// Folder has the flows that a server starts by name. A file that has changed is read again at the next start.
type Folder struct {
	path    string // empty if it has no files
	store   *workflows.Store
	cluster bool   // the flows are for the nodes of a cluster
	known   *known // the files that were read already
	// applied are the flows of the database that were applied. nil: it keeps none.
	applied *catalog.Catalog
	// served finds a workflow that processes serve. nil: none may.
	served func(name string) (journal.Definition, error)
}

// New returns the flows in a folder. path may be empty: then it has no files. store keeps compiled flows. cluster is
// set if several nodes carry the flows on.
func New(path string, store *workflows.Store, cluster bool) *Folder {
	return &Folder{path: path, store: store, cluster: cluster, known: &known{}}
}

// Path returns the folder, empty if there are no files.
func (f *Folder) Path() string { return f.path }

// Over returns the flows that can be started by name on a database: the files of a namespace, in the subfolder with its
// name, the flows that were applied, and the workflows that processes serve. An empty namespace is the default one.
func (f *Folder) Over(
	namespace string, applied *catalog.Catalog, served func(name string) (journal.Definition, error),
) *Folder {
	other := *f
	other.applied, other.served = applied, served
	if namespace != "" && f.path != "" {
		other.path = filepath.Join(f.path, namespace)
	}
	return &other
}

// Catalog returns the flows that were applied, among the files.
func (f *Folder) Catalog() api.Catalog { return startable{f.applied, f} }

var _ server.Flows = (*Folder)(nil)

// Files returns the present files of the folder, for the keeper of their schedules.
func (f *Folder) Files(context.Context) []scheduled.File {
	var out []scheduled.File
	for _, one := range f.all() {
		out = append(out, scheduled.File{Name: one.flow.File, Definition: one.definition, Problem: one.flow.Problem})
	}
	return out
}

func (f *Folder) List(context.Context) ([]api.Flow, error) { return f.Flows(), nil }

// Flows returns the descriptions of all flows of the folder.
func (f *Folder) Flows() []api.Flow {
	all := []api.Flow{}
	for _, one := range f.all() {
		all = append(all, one.flow)
	}
	return all
}

// all returns all flows of the folder, as its files are now. A flow that cannot be started contains the reason.
func (f *Folder) all() []readFlow {
	if f.path == "" {
		return nil
	}
	return f.known.looksAt(f.path).share(f.read)
}

// read reads all flows of the folder.
func (f *Folder) read() []readFlow {
	files := f.known.filesOf(f.path)
	all := make([]readFlow, 0, len(files))
	for _, file := range files {
		all = append(all, f.flow(file))
	}
	slices.SortFunc(all, func(a, b readFlow) int { return inOrder(a.flow, b.flow) })
	for i := range all { // a start by name must not choose between two
		if i > 0 && all[i].flow.Name != "" && all[i].flow.Name == all[i-1].flow.Name {
			all[i].flow.Problem = fmt.Sprintf("%s: the flow %q is in %s too; give one of them another name",
				all[i].flow.File, all[i].flow.Name, all[i-1].flow.File)
		}
	}
	return all
}

// inOrder compares flows for lists: by name, then by file.
func inOrder(a, b api.Flow) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.File, b.File))
}

// flow reads one file, unless its content is known.
func (f *Folder) flow(file string) readFlow {
	if known, ok := f.known.find(file); ok {
		return known
	}
	out := readFlow{flow: api.Flow{File: file}}
	in := Files{Noted: out.note}
	_, src, err := in.Read(file)
	if err == nil {
		if out.definition, err = f.define(in, file, src, in.Beside(file)); err == nil {
			out.flow.Name, out.flow.Definition = out.definition.Name, out.definition.ID
			f.known.add(out)
			return out
		}
	}
	out.flow.Problem = err.Error()
	return out
}

// define makes a definition of the text of a flow file, with the flows beside it that its steps start.
func (f *Folder) define(in Files, file string, src []byte, read Reader) (api.Definition, error) {
	b, _, err := in.Bundle(file, src, read)
	var w *workflows.Compiled
	if err == nil {
		w, err = workflows.Compile(b)
	}
	if err != nil {
		return api.Definition{}, &api.Error{Code: api.CodeInvalid, Message: err.Error(), Err: err}
	}
	return f.store.Keep(w)
}

// Find implements server.Flows. A file of the folder comes before a flow that was applied.
func (f *Folder) Find(ctx context.Context, name string) (api.Definition, error) {
	all := f.all()
	for _, one := range all {
		if one.flow.Problem == "" && one.flow.Name == name {
			return one.definition, nil
		}
	}
	if f.served != nil {
		if d, err := f.served(name); err == nil {
			return api.Definition{ID: d.ID.String(), Kind: d.Kind, Name: d.Name, Source: string(d.Source)}, nil
		}
	}
	if f.applied == nil {
		return api.Definition{}, f.unknown(name, all)
	}
	found, err := f.applied.Flow(ctx, name, 0)
	if f.path != "" && api.CodeOf(err) == api.CodeNotFound {
		err = f.unknown(name, all)
	}
	return api.Definition{ID: found.Definition, Kind: found.Kind, Name: found.Name, Source: found.Source}, err
}

// unknown returns the error for a name that nothing has. all are the flows of the folder.
func (f *Folder) unknown(name string, all []readFlow) error {
	var names, broken []string
	for _, one := range all {
		if one.flow.Problem != "" {
			broken = append(broken, one.flow.Problem)
		} else {
			names = append(names, one.flow.Name)
		}
	}
	err := &api.Error{Code: api.CodeNotFound, Message: fmt.Sprintf("the folder %s has no flow %q", f.path, name)}
	if f.applied != nil {
		err.Message += ", and none was applied"
	}
	if f.path == "" {
		err.Message = fmt.Sprintf("there is no flow %q: pawl dev was started without a folder", name)
	}
	switch hint := nearest.Hint(name, names); {
	case f.path == "":
		err.Hint = "start it with pawl dev FOLDER, or give the flow's text as flow"
	case hint != "":
		err.Hint = hint
	case len(names)+len(broken) == 0:
		err.Hint = "put a flow file into the folder, which has none, or apply one with pawl flow apply FILE"
	case len(broken) > 0:
		err.Hint = "these files cannot be read: " + strings.Join(broken, "; ")
	default:
		err.Hint = "it has " + strings.Join(names, ", ")
	}
	return err
}

// requestFile is the name of a flow that is sent as text.
const requestFile = "request.yaml"

// Read implements server.Flows. Flows that the text's steps start are looked for in the folder, and so are the files of
// its templates: a caller who may send a text must not read other files of this machine with it.
func (f *Folder) Read(_ context.Context, text string) (api.Definition, error) {
	return f.define(Files{}, filepath.Join(f.path, requestFile), []byte(text), f.inside)
}

// inside reads a file of the folder.
func (f *Folder) inside(path string) ([]byte, error) {
	if f.path == "" {
		return nil, errors.New("pawl dev was started without a folder")
	}
	root, err := os.OpenRoot(f.path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	file, err := root.Open(filepath.FromSlash(path))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, MaxFile))
}
