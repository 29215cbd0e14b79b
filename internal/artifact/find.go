package artifact

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Find returns the sorted paths of the files below a folder that patterns match; a folder means the files in it. what
// is the word for them in errors. Errors that a next attempt would have, too, are *Error.
func Find(what string, root *os.Root, patterns []string, most int) ([]string, error) {
	var paths []string
	for _, pattern := range patterns {
		clean := path.Clean(filepath.ToSlash(pattern))
		if !filepath.IsLocal(filepath.FromSlash(clean)) {
			return nil, wrong("%s: %q leads out of the folder of the step", what, pattern)
		}
		found, err := doublestar.Glob(root.FS(), clean, doublestar.WithFailOnIOErrors(), doublestar.WithNoFollow())
		if err != nil {
			return nil, outside(what, pattern, err)
		}
		before := len(paths)
		for _, p := range found {
			err := fs.WalkDir(root.FS(), p, func(p string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					paths = append(paths, p)
				}
				if err == nil && len(paths) > most {
					err = wrong("%s: there are more than %d files; keep an archive of them", what, most)
				}
				return err
			})
			if err != nil {
				return nil, outside(what, p, err)
			}
		}
		if len(paths) == before {
			return nil, wrong("%s: no file matches %q", what, pattern)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// outside replaces the error of a path by one that names what is refused.
func outside(what, path string, err error) error {
	if strings.Contains(err.Error(), "escapes from parent") {
		return wrong("%s: %q leads out of the folder of the step", what, path)
	}
	return fmt.Errorf("%s: %w", what, err)
}
