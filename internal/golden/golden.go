// Package golden compares what this code stores and sends with what version 0.1.0 stored and sent. Each package keeps
// the files of its forms in testdata/0.1.0. They are never changed, because databases and programs with these forms
// exist. A form that changes gets a new version with its own file, and the earlier files are still read. The house test
// of stored forms knows all of them.
package golden

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Folder has the golden files of a package, in its folder.
const Folder = "testdata/0.1.0"

// Write is the variable of the environment with which Same writes files that are not there.
const Write = "PAWL_WRITE_GOLDEN"

// Read returns the content of a golden file.
func Read(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Same checks that a golden file equals what this code writes, and returns it. With Write it makes the file of a new
// form.
func Same(t testing.TB, name string, written []byte) []byte {
	t.Helper()
	path := filepath.Join(Folder, name)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && os.Getenv(Write) != "" {
		if err := os.MkdirAll(Folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, written, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text := Read(t, name)
	if !bytes.Equal(text, written) {
		t.Errorf("%s says\n%s\nand this code writes\n%s", path, text, written)
	}
	return text
}

// Form checks the form of a value: the golden file equals what encode writes, and what decode reads from it is written
// in the same way.
func Form[T any](t testing.TB, name string, v T, encode func(T) ([]byte, error), decode func([]byte) (T, error)) {
	t.Helper()
	text, err := encode(v)
	if err != nil {
		t.Fatal(err)
	}
	text = Same(t, name, text)
	got, err := decode(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	again, err := encode(got)
	if err != nil || !bytes.Equal(again, text) {
		t.Errorf("%s is read as %+v and written as\n%s, %v", name, got, again, err)
	}
}
