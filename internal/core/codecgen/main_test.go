package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestCodecIsCurrent checks that the generated part of the codec is the one of the structs as they are.
func TestCodecIsCurrent(t *testing.T) {
	want, err := Generate("..")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join("..", File))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the structs say: run go generate ./internal/core", File)
	}
}
