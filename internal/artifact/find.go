package artifact

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/pawl-dev/pawl/internal/regular"
)

// Found is what patterns match below a folder.
type Found struct {
	Paths []string        // sorted
	Links map[string]bool // those of the paths that are symbolic links, and stay links
	Odd   []string        // things that are left out, with the reason: not a file, or a name that JSON cannot have
}

// Find returns the files below a folder that patterns match; a folder means the files in it. A link that a pattern
// names is followed, if it leads somewhere; one in a folder stays a link. Errors call the files by the word what.
// Those that a next attempt would have, too, are *Error.
func Find(what string, root *os.Root, patterns []string, most int) (*Found, error) {
	found := &Found{Links: map[string]bool{}}
	for _, pattern := range patterns {
		clean := path.Clean(filepath.ToSlash(pattern))
		if !filepath.IsLocal(filepath.FromSlash(clean)) {
			return nil, wrong("%s: %q leads out of the folder of the step", what, pattern)
		}
		matches, err := doublestar.Glob(root.FS(), clean, doublestar.WithFailOnIOErrors(), doublestar.WithNoFollow())
		if err != nil {
			return nil, outside(what, pattern, err)
		}
		before, odd := len(found.Paths), len(found.Odd)
		for _, p := range matches {
			if err := found.walk(root, p, most); err != nil {
				return nil, outside(what, p, err)
			}
			if len(found.Paths) > most {
				return nil, wrong("%s: there are more than %d files; keep an archive of them", what, most)
			}
		}
		switch {
		case len(found.Paths) > before:
		case len(found.Odd) > odd:
			return nil, wrong("%s: no file matches %q: %s", what, pattern, found.Odd[odd])
		default:
			return nil, wrong("%s: no file matches %q", what, pattern)
		}
	}
	slices.Sort(found.Paths)
	found.Paths = slices.Compact(found.Paths)
	return found, nil
}

// walk adds what is at a path that a pattern matches, and below it.
func (f *Found) walk(root *os.Root, top string, most int) error {
	if !utf8.ValidString(top) {
		f.leaveOut(top, "a name that is not UTF-8")
		return nil
	}
	if _, err := root.Stat(filepath.FromSlash(top)); err != nil && isLink(root, top) {
		return f.link(root, top) // it leads nowhere, to itself, or out of the folder
	}
	return fs.WalkDir(root.FS(), top, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !utf8.ValidString(p):
			f.leaveOut(p, "a name that is not UTF-8")
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.IsDir():
		case d.Type()&fs.ModeSymlink != 0 && p != top:
			return f.link(root, p)
		case d.Type()&fs.ModeSymlink == 0 && !d.Type().IsRegular():
			f.leaveOut(p, regular.Kind(d.Type()))
		default:
			f.Paths = append(f.Paths, p)
		}
		if len(f.Paths) > most {
			return fs.SkipAll
		}
		return nil
	})
}

func isLink(root *os.Root, p string) bool {
	info, err := root.Lstat(filepath.FromSlash(p))
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// link adds a link, unless it leads out of the folder.
func (f *Found) link(root *os.Root, p string) error {
	target, err := root.Readlink(filepath.FromSlash(p))
	if err != nil {
		return err
	}
	if !staysInside(p, target) {
		return wrong("the link %q leads out of the folder of the step", p)
	}
	f.Paths = append(f.Paths, p)
	f.Links[p] = true
	return nil
}

// staysInside reports whether a link at a path leads to a place below the same folder.
func staysInside(p, target string) bool {
	target = filepath.FromSlash(target)
	return !filepath.IsAbs(target) && filepath.IsLocal(filepath.Join(filepath.Dir(filepath.FromSlash(p)), target))
}

// leaveOut notes what is not kept.
func (f *Found) leaveOut(p, what string) {
	f.Odd = append(f.Odd, strings.ToValidUTF8(p, "\uFFFD")+" is left out: it is "+what)
}

// outside replaces the error of a path by one that names what is refused.
func outside(what, path string, err error) error {
	if strings.Contains(err.Error(), "escapes from parent") {
		return wrong("%s: %q leads out of the folder of the step", what, path)
	}
	return fmt.Errorf("%s: %w", what, err)
}
