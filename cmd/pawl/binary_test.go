package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// command returns the command that runs pawl with a state of its own in dir.
func command(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath("pawl")
	if err != nil {
		t.Fatal(err)
	}
	return commandOf(path, dir, args...)
}

// commandOf returns the command for a binary that may be of another version.
func commandOf(path, dir string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(dir, "state"),
		"XDG_CONFIG_HOME="+filepath.Join(dir, "config"), "USER=tester")
	return cmd
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
