package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/mod/semver"
)

// requirement is a line of a go.mod that requires a module.
var requirement = regexp.MustCompile(`(?m)^(?:require)?\s+(\S+/\S+) (v\S+)`)

// TestModulesOfTools checks that tools which use this module require its modules in no older version: Go refuses to
// build them then.
func TestModulesOfTools(t *testing.T) {
	read := func(name string) (text string, versions map[string]string) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		versions = map[string]string{}
		for _, m := range requirement.FindAllStringSubmatch(string(b), -1) {
			versions[m[1]] = m[2]
		}
		return string(b), versions
	}
	_, own := read(filepath.Join(top(t), "go.mod"))
	tools, err := filepath.Glob(filepath.Join(top(t), "tools", "*", "go.mod"))
	if err != nil || len(own) < 20 {
		t.Fatal(len(own), tools, err)
	}
	users := 0
	for _, tool := range tools {
		text, theirs := read(tool)
		if !strings.Contains(text, "replace github.com/pawl-dev/pawl ") {
			continue
		}
		users++
		for module, version := range theirs {
			if least, ok := own[module]; ok && semver.Compare(version, least) < 0 {
				t.Errorf("%s requires %s %s, and this module %s: run go mod tidy there", tool, module, version, least)
			}
		}
	}
	if users == 0 {
		t.Error("no tool uses this module")
	}
}
