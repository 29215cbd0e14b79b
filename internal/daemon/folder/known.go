package folder

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// known has the flows of folders that were read, so that a start does not read a file that has not changed.
type known struct {
	mu  sync.Mutex
	all map[string]readFlow // the flows by file
	// folders has the names of files, by the folder.
	folders map[string]readFolder
	looks   map[string]*looks // those at each folder
}

// looksAt returns the looks at a folder.
func (k *known) looksAt(folder string) *looks {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.looks[folder] == nil {
		if k.looks == nil {
			k.looks = map[string]*looks{}
		}
		k.looks[folder] = &looks{}
	}
	return k.looks[folder]
}

// readFolder is the list of files in a folder.
type readFolder struct {
	origins // the folder itself
	files   []string
}

// readFlow is the content of a file.
type readFlow struct {
	flow       api.Flow
	definition api.Definition
	origins
}

// origins are the files and folders that something comes from.
type origins struct {
	from  []origin
	young bool // one of them had changed just before
}

// origin is a file or folder as it was when it was read.
type origin struct {
	path string
	info fs.FileInfo
}

// settledAge is how long a file must not have changed before it is read, so that its time shows whether it changes
// afterwards. Some file systems count whole seconds.
const settledAge = 2 * time.Second

// note notes a file that is read.
func (r *origins) note(path string, info fs.FileInfo) {
	r.from = append(r.from, origin{path, info})
	r.young = r.young || time.Since(info.ModTime()) < settledAge
}

// unchanged reports whether the file is the one that was read.
func (o origin) unchanged() bool {
	info, err := os.Stat(o.path)
	return err == nil && os.SameFile(info, o.info) && info.ModTime().Equal(o.info.ModTime()) &&
		info.Size() == o.info.Size()
}

// unchanged reports whether none of the files has changed.
func (r *origins) unchanged() bool {
	return !slices.ContainsFunc(r.from, func(o origin) bool { return !o.unchanged() })
}

// find returns the content of a file, if neither it nor the files that it uses have changed.
func (k *known) find(file string) (readFlow, bool) {
	k.mu.Lock()
	found, ok := k.all[file]
	k.mu.Unlock()
	return found, ok && found.unchanged()
}

// add stores the content of a file.
func (k *known) add(f readFlow) {
	if f.young {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[string]readFlow{}
	}
	k.all[f.flow.File] = f
}

// filesOf lists the files of a folder that may be flows. Other known files in the folder are forgotten.
func (k *known) filesOf(folder string) []string {
	k.mu.Lock()
	found, ok := k.folders[folder]
	k.mu.Unlock()
	if ok && found.unchanged() {
		return found.files
	}
	read := readFolder{}
	read.files = Files{Noted: read.note}.list(folder)
	k.mu.Lock()
	defer k.mu.Unlock()
	for file := range k.all {
		if filepath.Dir(file) == filepath.Clean(folder) && !slices.Contains(read.files, file) {
			delete(k.all, file)
		}
	}
	delete(k.folders, folder)
	if !read.young && len(read.from) > 0 {
		if k.folders == nil {
			k.folders = map[string]readFolder{}
		}
		k.folders[folder] = read
	}
	return read.files
}
