package vfs

import (
	"os"
	"regexp"
	"runtime/debug"
	"testing"
)

// TestTestedRelease checks that the SQLite that go.mod asks for is the one that is written down as tested, so that
// whoever raises it decides about both.
func TestTestedRelease(t *testing.T) {
	text, err := os.ReadFile("../../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(testedModule) + ` (\S+)`).FindSubmatch(text)
	if found == nil || string(found[1]) != testedRelease {
		t.Errorf("go.mod has %s, tested is %s", found, testedRelease)
	}
	if !tested() || Writer() != ours {
		t.Errorf("tested: %t, a database is written with the virtual file system %q", tested(), Writer())
	}
}

// TestHasTested checks that a program with another release than the tested one keeps to SQLite's own files.
func TestHasTested(t *testing.T) {
	dep := func(version string, replace *debug.Module) *debug.BuildInfo {
		return &debug.BuildInfo{Deps: []*debug.Module{
			{Path: "example.org/a", Version: "v1.0.0"}, {Path: testedModule, Version: version, Replace: replace},
		}}
	}
	for _, c := range []struct {
		name string
		info *debug.BuildInfo
		want bool
	}{
		{"not known", nil, true},
		{"modules not known", &debug.BuildInfo{}, true},
		{"the tested one", dep(testedRelease, nil), true},
		{"another one", dep("v1.99.0", nil), false},
		{"one in its place", dep(testedRelease, &debug.Module{Path: "example.org/fork"}), false},
	} {
		if got := hasTested(c.info); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}
