package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// schemaLine names the schema of a file for editors with the YAML language server.
const schemaLine = "# yaml-language-server: $schema=" +
	"https://raw.githubusercontent.com/pawl-dev/pawl/main/flow/schema.json"

func (a flowVerbs) initCommand() *cobra.Command {
	return &cobra.Command{
		Use: "init [FILE]", Short: "Write a first flow for what is in this folder", Args: cobra.MaximumNArgs(1),
		Long: `Looks at the folder for what can be built and tested there (a Makefile, go.mod, package.json, Cargo.toml,
pyproject.toml, requirements.txt, pom.xml, build.gradle) and writes a flow that does so; without any, one that shows
what a flow is. The file is flow.yaml unless another one is named. It is yours from then on.`,
		Example: "  pawl init\n  pawl init ci.yaml && pawl run ci.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			file := "flow.yaml"
			if len(args) > 0 {
				file = args[0]
			}
			dir, err := os.Getwd()
			if err != nil {
				return err
			}
			return a.initFlow(dir, file)
		},
	}
}

// initFlow writes a first flow.
func (a flowVerbs) initFlow(dir, file string) error {
	found, steps := stepsFor(dir)
	text := firstFlow(dir, found, steps)
	doc, err := a.parseFlow(file, []byte(text))
	if err != nil {
		return fmt.Errorf("the flow that was made is wrong: %w", err)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // a flow is no secret
	if errors.Is(err, fs.ErrExist) {
		return usage("%s is there already: name another file, as in pawl init ci.yaml", file)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	because := "nothing to build was found here, so it shows what a flow is"
	if len(found) > 0 {
		because = "for " + strings.Join(found, ", ")
	}
	a.say("%s is written: %s, %s.", file, count(len(doc.Steps), "step"), because)
	a.say("Run it: pawl run %s", file)
	return nil
}

// firstStep is a step of a first flow.
type firstStep struct{ name, line, more string }

// fetches are the settings of a step that fetches something.
const fetches = "    retry: exponential(3, 2s)\n"

// stepsFor returns the files in a folder that show how it is built, and the steps that build it.
func stepsFor(dir string) (found []string, steps []firstStep) {
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	take := func(name string, more ...firstStep) {
		if has(name) && len(more) > 0 {
			found, steps = append(found, name), append(steps, more...)
		}
	}
	if targets := makeTargets(filepath.Join(dir, "Makefile")); len(targets) > 0 {
		take("Makefile", targets...)
		return found, steps
	}
	take("go.mod", firstStep{"vet", "go vet ./...", ""}, firstStep{"build", "go build ./...", ""},
		firstStep{"test", "go test ./...", ""})
	take("package.json", scriptsOf(dir, has("package-lock.json"))...)
	take("Cargo.toml", firstStep{"cargo-build", "cargo build --locked", fetches},
		firstStep{"cargo-test", "cargo test", ""})
	take("requirements.txt", firstStep{"install", "python3 -m pip install -r requirements.txt", fetches})
	for _, name := range []string{"pyproject.toml", "requirements.txt"} {
		if has(name) && has("tests") {
			take(name, firstStep{"pytest", "python3 -m pytest", ""})
			break
		}
	}
	take("pom.xml", firstStep{"verify", "mvn -B verify", ""})
	take("build.gradle", firstStep{"gradle", "./gradlew build", ""})
	return slices.Compact(found), steps
}

// makeTarget matches a target of a Makefile without prerequisites in its name.
var makeTarget = regexp.MustCompile(`(?m)^([A-Za-z][\w-]*):([^=]|$)`)

// makeTargets returns the steps for the targets of a Makefile that build and test.
func makeTargets(path string) (steps []firstStep) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var targets []string
	for _, m := range makeTarget.FindAllStringSubmatch(string(text), -1) {
		targets = append(targets, m[1])
	}
	for _, name := range []string{"lint", "check", "build", "test"} {
		if slices.Contains(targets, name) {
			steps = append(steps, firstStep{name, "make " + name, ""})
		}
	}
	if len(steps) == 0 && slices.Contains(targets, "all") {
		steps = append(steps, firstStep{"build", "make all", ""})
	}
	return steps
}

// scriptsOf returns the steps for the scripts of a package.json.
func scriptsOf(dir string, locked bool) []firstStep {
	text, err := os.ReadFile(filepath.Join(dir, "package.json"))
	var pkg struct{ Scripts map[string]string }
	if err != nil || json.Unmarshal(text, &pkg) != nil {
		return nil
	}
	install := "npm install"
	if locked {
		install = "npm ci"
	}
	steps := []firstStep{{"npm-install", install, fetches}}
	for _, name := range []string{"lint", "build", "test"} {
		if pkg.Scripts[name] != "" {
			steps = append(steps, firstStep{"npm-" + name, "npm run " + name, ""})
		}
	}
	return steps
}

// firstFlow returns the text of a first flow.
func firstFlow(dir string, found []string, steps []firstStep) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\npawl: 1\nname: %s\n", schemaLine, flowName(filepath.Base(dir)))
	if len(steps) == 0 {
		b.WriteString(`description: Greets, and shows what a flow is.
input:
  type: object
  properties:
    who: {type: string, default: world}
timeout: 10m # of the whole run
steps:
  - name: greet
    exec: 'echo hello ${{ q(input.who) }}'
  - name: flaky # fails twice, and is tried again after one and two seconds
    needs: greet
    exec: 'test "$PAWL_ATTEMPT" -ge 3'
    retry: exponential(5, 1s)
output: "${{ trim(steps.greet.output.stdout) }}"
`)
		return b.String()
	}
	fmt.Fprintf(&b, "description: Made by pawl init for %s.\n", strings.Join(found, ", "))
	b.WriteString("timeout: 1h # of the whole run\nfailFast: true\n")
	if _, err := os.Stat(filepath.Join(dir, ".env")); err == nil {
		b.WriteString("dotenv: .env\n")
	}
	b.WriteString("defaults:\n  timeout: {startToClose: 20m} # of each attempt\nsteps:\n")
	for i, s := range steps {
		fmt.Fprintf(&b, "  - name: %s\n", s.name)
		if i > 0 {
			fmt.Fprintf(&b, "    needs: %s\n", steps[i-1].name)
		}
		fmt.Fprintf(&b, "    exec: %s\n%s", s.line, s.more)
	}
	return b.String()
}

// flowName makes the name of a flow from that of a folder.
func flowName(folder string) string {
	name := strings.Trim(regexp.MustCompile(`[^A-Za-z0-9_.-]+`).ReplaceAllString(folder, "-"), "-.")
	if name == "" {
		return "first"
	}
	return name[:min(len(name), 60)]
}
