package artifact

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// fill makes files in a new folder.
func fill(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// count returns how many objects a bucket has below a prefix.
func count(t *testing.T, b Bucket, prefix string) (n int) {
	t.Helper()
	if err := b.List(t.Context(), prefix, func(Object) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestKeep checks that files are kept by patterns, each content once, and are taken at the same paths.
func TestKeep(t *testing.T) {
	bucket := NewFolder(filepath.Join(t.TempDir(), "kept"))
	s := New(bucket, Limits{})
	from := fill(t, map[string]string{
		"dist/a.gz": "same", "dist/deep/b.gz": "same", "dist/c.txt": "other", "d.log": "", "left/out": "x",
	})
	files, _, err := s.Keep(t.Context(), from, []string{"dist", "**/*.log", "dist/a.*"}, Attempt{"r1", "build/x", 1})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, f := range files {
		paths = append(paths, f.Path)
	}
	if got := strings.Join(paths, " "); got != "d.log dist/a.gz dist/c.txt dist/deep/b.gz" {
		t.Errorf("kept are %s", got)
	}
	if n := count(t, bucket, "content/"); n != 3 {
		t.Errorf("%d contents are kept", n)
	}
	to := t.TempDir()
	if err := s.Take(t.Context(), to, files); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(to, "dist", "deep", "b.gz"))
	info, errStat := os.Stat(filepath.Join(to, "dist", "deep", "b.gz"))
	if string(text) != "same" || err != nil || errStat != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("taken is %q, %v, %v", text, err, info)
	}
	list, err := s.List(t.Context(), "r1")
	if err != nil || len(list) != 1 || list[0].Step != "build/x" || len(list[0].Files) != 4 {
		t.Errorf("listed are %+v, %v", list, err)
	}
	f, content, err := s.Open(t.Context(), "r1", files[1].SHA256)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(content); string(text) != "same" || err != nil || f.Path != "dist/a.gz" {
		t.Errorf("%s is %q, %v", f.Path, text, err)
	}
	if err := content.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := s.Open(t.Context(), "r2", files[1].SHA256); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another run has it: %v", err)
	}
}

// TestRefused checks that paths that lead out of the folder, patterns without a file and what is too large are refused,
// for good.
func TestRefused(t *testing.T) {
	outside := fill(t, map[string]string{"secret": "x"})
	from := fill(t, map[string]string{"a": "12345", "b": "123456"})
	for link, to := range map[string]string{"out": outside, "file": filepath.Join(outside, "secret")} {
		if err := os.Symlink(to, filepath.Join(from, link)); err != nil {
			t.Fatal(err)
		}
	}
	kept := filepath.Join(t.TempDir(), "kept")
	for name, c := range map[string]struct {
		pattern string
		limits  Limits
		want    string
	}{
		"above":            {"../x", Limits{}, "leads out"},
		"inside and above": {"a/../../x", Limits{}, "leads out"},
		"absolute":         {filepath.Join(outside, "secret"), Limits{}, "leads out"},
		"a linked folder":  {"out/secret", Limits{}, "leads out"},
		"a linked file":    {"file", Limits{}, "leads out"},
		"nothing":          {"*.gz", Limits{}, "no file matches"},
		"too large":        {"[ab]", Limits{Bytes: 10}, "larger than 10 bytes"},
		"too many":         {"[ab]", Limits{Files: 1}, "more than 1 files"},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(NewFolder(kept), c.limits)
			_, _, err := s.Keep(t.Context(), from, []string{c.pattern}, Attempt{"r", "s", 1})
			var wrong *Error
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("it is %v", err)
			}
			if list, err := s.List(t.Context(), "r"); len(list) != 0 || err != nil {
				t.Errorf("listed are %v, %v", list, err)
			}
		})
	}
	s := New(NewFolder(kept), Limits{})
	files, _, err := s.Keep(t.Context(), from, []string{"a"}, Attempt{"r", "s", 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"../a", "/a", "out/a", "."} {
		f := files[0]
		f.Path = path
		var wrong *Error
		if err := s.Take(t.Context(), from, []File{f}); !errors.As(err, &wrong) {
			t.Errorf("%s is taken: %v", path, err)
		}
	}
	if left, err := os.ReadDir(outside); len(left) != 1 || err != nil {
		t.Errorf("outside there are %v, %v", left, err)
	}
}

// TestDamaged checks that content that is not what its name says reaches nobody, and that a file which changes while it
// is kept is not kept.
func TestDamaged(t *testing.T) {
	kept := filepath.Join(t.TempDir(), "kept")
	s := New(NewFolder(kept), Limits{})
	from := fill(t, map[string]string{"a": "content"})
	files, _, err := s.Keep(t.Context(), from, []string{"a"}, Attempt{"r", "s", 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(kept, contentKey(files[0].SHA256)), []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := s.Take(t.Context(), to, files); err == nil {
		t.Error("damaged content is taken")
	}
	if left, err := os.ReadDir(to); len(left) != 0 || err != nil {
		t.Errorf("there are %v, %v", left, err)
	}
	f := File{Path: "b", Size: 1, SHA256: strings.Repeat("0", 64)}
	err = s.bucket.Put(t.Context(), contentKey(f.SHA256), checked(t.Context(), strings.NewReader("x"), f), 1)
	if err == nil || count(t, s.bucket, "content/00/") != 0 {
		t.Errorf("it is kept: %v", err)
	}
}

// writtenBucket changes a file before content is put.
type writtenBucket struct {
	*Folder
	file string
}

func (b writtenBucket) Renew(ctx context.Context, key string) (bool, error) {
	return false, os.WriteFile(b.file, []byte("another one"), 0o600)
}

// TestChangedMeanwhile checks that a file is not kept which somebody changes while it is read.
func TestChangedMeanwhile(t *testing.T) {
	from := fill(t, map[string]string{"a": ""})
	b := writtenBucket{NewFolder(filepath.Join(t.TempDir(), "kept")), filepath.Join(from, "a")}
	_, _, err := New(b, Limits{}).Keep(t.Context(), from, []string{"a"}, Attempt{"r", "s", 1})
	if err == nil || !strings.Contains(err.Error(), "a was changed while it was read") {
		t.Error(err)
	}
	if n := count(t, b, "content/e3/"); n != 0 {
		t.Errorf("%d contents are kept", n)
	}
}

// TestSweep checks that what a run has kept goes with it, and content that another run has, too, or that is young, does
// not.
func TestSweep(t *testing.T) { sweep(t, NewFolder(filepath.Join(t.TempDir(), "kept"))) }

func sweep(t *testing.T, bucket Bucket) {
	s := New(bucket, Limits{})
	for i, text := range []string{"one", "both"} {
		run := "r" + strconv.Itoa(i)
		from := fill(t, map[string]string{"own": text, "shared": "both"})
		if _, _, err := s.Keep(t.Context(), from, []string{"*"}, Attempt{run, "s", 1}); err != nil {
			t.Fatal(err)
		}
	}
	gone := func(run string) (bool, error) { return run == "r0", nil }
	now := time.Now().Add(time.Minute)
	if n, err := s.Sweep(t.Context(), now, gone); n != 1 || err != nil {
		t.Fatalf("%d runs are removed, %v", n, err)
	}
	if n := count(t, bucket, "content/"); n != 2 {
		t.Errorf("young content is removed: %d are there", n)
	}
	if list, err := s.List(t.Context(), "r0"); len(list) != 0 || err != nil {
		t.Errorf("there is %v, %v", list, err)
	}
	from := fill(t, map[string]string{"a": "x"})
	if _, _, err := s.Keep(t.Context(), from, []string{"*"}, Attempt{"r0", "s", 2}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Sweep(t.Context(), now.Add(2*time.Hour), gone); n != 1 || err != nil {
		t.Fatalf("%d runs are removed, %v", n, err)
	}
	list, err := s.List(t.Context(), "r1")
	if err != nil || len(list) != 1 || count(t, bucket, "content/") != 1 {
		t.Fatalf("of the other run there is %v, %v", list, err)
	}
	if err := s.Take(t.Context(), t.TempDir(), list[0].Files); err != nil {
		t.Error(err)
	}
}

// TestKeepsTheNewest checks that content which is kept again is not removed as old.
func TestKeepsTheNewest(t *testing.T) {
	folder := NewFolder(filepath.Join(t.TempDir(), "kept"))
	s := New(folder, Limits{})
	from := fill(t, map[string]string{"a": "x"})
	files, _, err := s.Keep(t.Context(), from, []string{"a"}, Attempt{"r", "s", 1})
	if err != nil {
		t.Fatal(err)
	}
	key := contentKey(files[0].SHA256)
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(folder.at(key), old, old); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Keep(t.Context(), from, []string{"a"}, Attempt{"r", "s", 2}); err != nil {
		t.Fatal(err)
	}
	if err := folder.RemoveOlder(t.Context(), key, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := s.Take(t.Context(), t.TempDir(), files); err != nil {
		t.Error(err)
	}
}

// TestClaim checks that a bucket is that of one database.
func TestClaim(t *testing.T) {
	s := New(NewFolder(filepath.Join(t.TempDir(), "kept")), Limits{})
	for _, c := range []struct {
		database string
		ok       bool
	}{{"one", true}, {"one", true}, {"two", false}} {
		if err := s.Claim(context.Background(), c.database); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.database, err)
		}
	}
}

// TestReceive checks that the list of another machine is kept when all contents are there and not before, and that what
// is too large, leads out or is not what its name says is refused.
func TestReceive(t *testing.T) {
	bucket := NewFolder(filepath.Join(t.TempDir(), "kept"))
	s, of := New(bucket, Limits{Files: 2, Bytes: 10}), Attempt{"r1", "train", 1}
	ctx := t.Context()
	root, err := os.OpenRoot(fill(t, map[string]string{"a": "same", "b": "same"}))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	files, _, err := Scan(ctx, root, []string{"."}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	missing, err := s.Receive(ctx, of, files)
	if err != nil || len(missing) != 1 || missing[0] != files[0].SHA256 || count(t, bucket, "runs/") != 0 {
		t.Errorf("missing are %v, %v", missing, err)
	}
	send := func(size int64, text string) error {
		return s.ReceiveContent(ctx, files[0].SHA256, size, strings.NewReader(text))
	}
	for what, err := range map[string]error{
		"too large": send(11, "same"), "negative": send(-1, "same"), "other": send(4, "SAME"),
		"cut off": send(4, "sam"), "longer": send(4, "same, and more"),
		"no name": s.ReceiveContent(ctx, "../x", 4, strings.NewReader("same")),
	} {
		var wrong *Error
		if !errors.As(err, &wrong) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := count(t, bucket, ""); n != 0 {
		t.Errorf("%d objects are left", n)
	}
	if err := send(4, "same"); err != nil {
		t.Fatal(err)
	}
	if missing, err := s.Receive(ctx, of, files); err != nil || len(missing) > 0 {
		t.Errorf("missing are %v, %v", missing, err)
	}
	if list, err := s.List(ctx, "r1"); err != nil || len(list) != 1 || len(list[0].Files) != 2 {
		t.Errorf("listed are %+v, %v", list, err)
	}
	large, above := files[0], files[0]
	large.Size, above.Path = 7, "../a"
	for what, list := range map[string][]File{
		"too many": {files[0], files[1], files[0]}, "too large": {files[0], large}, "above": {above},
		"no name": {{Path: "a"}},
	} {
		var wrong *Error
		if _, err := s.Receive(ctx, of, list); !errors.As(err, &wrong) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestTakeTogether checks that several steps may take the same files into one folder at once, as items of a loop do.
func TestTakeTogether(t *testing.T) {
	s := New(NewFolder(filepath.Join(t.TempDir(), "kept")), Limits{})
	files, _, err := s.Keep(t.Context(), fill(t, map[string]string{"parts/1": "part"}), []string{"parts"},
		Attempt{"r1", "split", 1})
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	for range 50 {
		var all errgroup.Group
		for range 8 {
			all.Go(func() error { return s.Take(t.Context(), to, files) })
		}
		if err := all.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(to, "parts")); err != nil || len(left) != 1 {
		t.Errorf("in the folder are %v, %v", left, err)
	}
}
