package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/flow"
)

// Every part of the schema and every command is used somewhere: in an example or in a script that runs the real
// binary. A part that nobody uses may long be broken.

// TestEveryFieldIsUsed walks the JSON Schema, fields and words, and the flow files of examples and scripts.
func TestEveryFieldIsUsed(t *testing.T) {
	t.Parallel()
	var root map[string]any
	if err := json.Unmarshal(flow.Schema(), &root); err != nil {
		t.Fatal(err)
	}
	s := schema{defs: root["$defs"].(map[string]any), offered: map[string]bool{}, used: map[string]bool{}}
	s.offer(root, "flow")
	for name, def := range s.defs {
		s.offer(def, name)
	}
	files := 0
	for name, src := range flowFiles(t) {
		if _, err := new(app).parseFlow(name, []byte(src)); err != nil {
			continue // another document, or one that shows an error
		}
		var doc any
		if err := yaml.Unmarshal([]byte(src), &doc); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s.use(root, doc, "flow")
		files++
	}
	if files < 20 {
		t.Fatalf("only %d flow files were found", files)
	}
	var missing []string
	for path := range s.offered {
		if !s.used[path] {
			missing = append(missing, path)
		}
	}
	slices.Sort(missing)
	for _, path := range missing {
		t.Errorf("no example and no script uses %s", path)
	}
}

// schema is a JSON Schema with what it offers and what documents use of it: "step.exec" is a field, "ending: error" a
// word.
type schema struct {
	defs          map[string]any
	offered, used map[string]bool
}

func (s *schema) offer(node any, path string) {
	object, ok := node.(map[string]any)
	if !ok {
		return
	}
	for name, field := range fields(object) {
		s.offered[path+"."+name] = true
		s.offer(field, path+"."+name)
	}
	for _, word := range words(object) {
		s.offered[path+": "+word] = true
	}
	for _, alternative := range list(object["anyOf"]) {
		s.offer(alternative, path)
	}
	for _, inner := range []string{"items", "additionalProperties"} {
		s.offer(object[inner], path)
	}
}

func (s *schema) use(node, value any, path string) {
	object, ok := node.(map[string]any)
	if !ok {
		return
	}
	if ref, ok := object["$ref"].(string); ok {
		path = strings.TrimPrefix(ref, "#/$defs/")
		s.use(s.defs[path], value, path)
		return
	}
	for _, alternative := range list(object["anyOf"]) {
		s.use(alternative, value, path)
	}
	switch value := value.(type) {
	case map[string]any:
		known := fields(object)
		for name, v := range value {
			if field, ok := known[name]; ok {
				s.used[path+"."+name] = true
				s.use(field, v, path+"."+name)
			} else {
				s.use(object["additionalProperties"], v, path)
			}
		}
	case []any:
		for _, item := range value {
			s.use(object["items"], item, path)
		}
	default:
		if word := fmt.Sprint(value); slices.Contains(words(object), word) {
			s.used[path+": "+word] = true
		}
	}
}

func fields(object map[string]any) map[string]any {
	known, _ := object["properties"].(map[string]any)
	return known
}

func list(v any) []any {
	items, _ := v.([]any)
	return items
}

// words returns the texts that a schema accepts; a default need not be written anywhere.
func words(object map[string]any) []string {
	var out []string
	for _, word := range append(list(object["enum"]), object["const"]) {
		if text, ok := word.(string); ok && text != object["default"] {
			out = append(out, text)
		}
	}
	return out
}

// flowFiles returns the YAML and JSON files of the examples and the scripts.
func flowFiles(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	isFlow := func(name string) bool { return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) }
	err := filepath.WalkDir(filepath.Join("..", "..", "examples"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !isFlow(path) {
			return err
		}
		src, err := os.ReadFile(path)
		out[path] = string(src)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, script := range scripts(t) {
		for _, f := range script.Files {
			if isFlow(f.Name) {
				out[name+"/"+f.Name] = string(f.Data)
			}
		}
	}
	return out
}

func scripts(t *testing.T) map[string]*txtar.Archive {
	t.Helper()
	out := map[string]*txtar.Archive{}
	for _, folder := range []string{"script", "postgres"} {
		paths, err := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
		if err != nil || len(paths) == 0 {
			t.Fatal(paths, err)
		}
		for _, path := range paths {
			if out[path], err = txtar.ParseFile(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}

// TestEveryVerbIsUsed walks the tree of commands with their flags, and the command lines of scripts and of CI.
func TestEveryVerbIsUsed(t *testing.T) {
	t.Parallel()
	ci, err := os.ReadFile(filepath.Join("..", "..", ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(ci)
	for _, script := range scripts(t) {
		text += string(script.Comment)
	}
	call := regexp.MustCompile(`(?m)(?:^|[ ./'"(])pawl ([a-z@][^\n|>;]*)`)
	var calls []string
	for _, m := range call.FindAllStringSubmatch(text, -1) {
		calls = append(calls, m[1]+" ")
	}
	a := &app{}
	var walk func(cmd *cobra.Command, path string)
	walk = func(cmd *cobra.Command, path string) {
		if cmd.Hidden || cmd.Name() == "help" {
			return
		}
		for _, sub := range cmd.Commands() {
			walk(sub, strings.TrimSpace(path+" "+sub.Name()))
		}
		if cmd.HasSubCommands() && cmd.Name() != "run" {
			return
		}
		var own []string
		for _, c := range calls {
			if strings.HasPrefix(c, path+" ") {
				own = append(own, c)
			}
		}
		if len(own) == 0 {
			t.Errorf("nothing calls pawl %s", path)
			return
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" && cmd.Parent().Name() != "completion" && !isWritten(f, own) {
				t.Errorf("nothing calls pawl %s with --%s", path, f.Name)
			}
		})
	}
	root := a.rootCommand()
	walk(root, "")
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !isWritten(f, calls) {
			t.Errorf("nothing calls pawl with --%s", f.Name)
		}
	})
}

func isWritten(f *pflag.Flag, calls []string) bool {
	return slices.ContainsFunc(calls, func(c string) bool {
		return strings.Contains(c, " --"+f.Name) || f.Shorthand != "" && strings.Contains(c, " -"+f.Shorthand+" ")
	})
}

// TestDocumentsAreTrue checks that the flows that README and docs show are valid, and the commands and flags they name
// exist.
func TestDocumentsAreTrue(t *testing.T) {
	t.Parallel()
	top := filepath.Join("..", "..")
	flows, calls := 0, 0
	root := (&app{}).rootCommand()
	root.InitDefaultHelpCmd()
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != top && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, block := range shownFlow.FindAllStringSubmatch(string(src), -1) {
			flows++
			text := block[1]
			if !strings.HasPrefix(text, "pawl:") { // only its steps are shown
				text = "pawl: 1\nname: shown\ninput: {type: object}\n" + text
			}
			if _, err := new(app).parseFlow(path, []byte(text)); err != nil {
				t.Errorf("%s shows a flow that is not valid: %v", path, err)
			}
		}
		for _, m := range shownCall.FindAllStringSubmatch(string(src), -1) {
			for _, words := range named(m[1]) {
				calls++
				if err := exists(root, words); err != nil {
					t.Errorf("%s names pawl %s: %v", path, strings.Join(words, " "), err)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if flows < 1 || calls < 20 {
		t.Errorf("only %d flows and %d commands were found in the documents", flows, calls)
	}
}

var (
	shownFlow = regexp.MustCompile("(?s)```yaml\n((?:pawl: 1|steps:)\n.*?)```")
	shownCall = regexp.MustCompile("`(?:\\./)?pawl ([^`\n]*)`")
)

// named returns the command lines that a piece of a document names: `pawl run cancel · terminate` names two.
func named(text string) [][]string {
	alternatives := strings.Split(strings.NewReplacer("[", "", "]", "", "…", "").Replace(text), " · ")
	first := strings.Fields(alternatives[0])
	out := [][]string{first}
	for _, verb := range alternatives[1:] {
		out = append(out, append(slices.Clone(first[:len(first)-1]), strings.Fields(verb)...))
	}
	return out
}

// exists says what is wrong with a command line: an unknown verb or an unknown flag.
func exists(root *cobra.Command, words []string) error {
	cmd, rest, err := root.Find(words)
	switch {
	case err != nil:
		return err
	case len(rest) > 0 && !strings.HasPrefix(rest[0], "-") && cmd.HasAvailableSubCommands() && cmd.Name() != "run":
		return fmt.Errorf("%q is not a verb", rest[0])
	}
	for _, word := range rest {
		name, _, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		if strings.HasPrefix(word, "--") && cmd.Flag(name) == nil {
			return fmt.Errorf("%s is not a flag", word)
		}
	}
	return nil
}
