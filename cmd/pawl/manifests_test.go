package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"
)

// TestManifests checks that the settings in the manifests are flags of pawl server, or their variables.
func TestManifests(t *testing.T) {
	t.Parallel()
	server, _, err := (&app{}).rootCommand().Find([]string{"server"})
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	add := func(f *pflag.Flag) { known["--"+f.Name], known[variable(f.Name)] = true, isSetting(f) }
	server.Flags().VisitAll(add)
	server.InheritedFlags().VisitAll(add)
	for _, name := range []string{"kubernetes.yaml", "compose.yaml"} {
		f, err := os.Open(filepath.Join("..", "..", "docs", "operations", name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var found int
		for d := yaml.NewDecoder(f); ; {
			var document any
			if err := d.Decode(&document); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			eachText(document, func(word string) {
				if !strings.HasPrefix(word, "PAWL_") && !strings.HasPrefix(word, "--") {
					return
				}
				if found++; !known[word] {
					t.Errorf("%s: pawl server has no %s", name, word)
				}
			})
		}
		if found < 6 {
			t.Errorf("%s has %d settings", name, found)
		}
	}
}

// eachText calls a function with each key and text of a document.
func eachText(v any, do func(string)) {
	switch v := v.(type) {
	case string:
		do(v)
	case []any:
		for _, v := range v {
			eachText(v, do)
		}
	case map[string]any:
		for key, v := range v {
			do(key)
			eachText(v, do)
		}
	}
}
