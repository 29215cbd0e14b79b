package conformance

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/nightly"
)

var (
	mutants = flag.String("mutants", "",
		"make each mistake of folder mutants whose file's name matches this pattern in a copy of the tree, and test it")
	refresh = flag.Bool("refresh", false, "write patches of mutants anew that apply only with a merge, and test none")
)

// mutant is a mistake as a patch. The test that it names must fail because of it.
type mutant struct {
	file   string // its path
	folder string // the folder of the test
	test   string
	text   string // the text of the file: a line that says what it breaks, and the patch
}

// mutantHead matches the first line of a mutant: the row that it breaks, or another test with its package. For example
// `# Breaks A10/sqlite: ...` or `# Breaks TestClock of internal/engine: ...`.
var mutantHead = regexp.MustCompile(`^# Breaks (?:([SVZATBCDFGRW]\d+(?:/\w+)?)|(Test[\w/-]+) of ([\w/]+)): .+\.\n`)

const treeRoot = "../.."

func readMutants(t *testing.T) []mutant {
	t.Helper()
	files, err := filepath.Glob("mutants/*.patch")
	if err != nil || len(files) == 0 {
		t.Fatalf("no mutants: %v", err)
	}
	var all []mutant
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		head := mutantHead.FindStringSubmatch(string(text))
		if head == nil {
			t.Errorf("%s: its first line must match %s", file, mutantHead)
			continue
		}
		m := mutant{file: file, folder: head[3], test: head[2], text: string(text)}
		if head[1] != "" {
			m.folder, m.test = "internal/conformance", "TestConformance/"+head[1]
		}
		all = append(all, m)
	}
	return all
}

// git runs git in a folder and returns what it wrote.
func git(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func mustGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := git(t, dir, args...)
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// TestMutantsApply checks that each mistake can still be put into the code.
func TestMutantsApply(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is missing")
	}
	for _, m := range readMutants(t) {
		file, err := filepath.Abs(m.file)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := git(t, treeRoot, "apply", "--check", file); err != nil && !*refresh {
			t.Errorf("%s does not apply; try `make mutants REFRESH=1`, or make it anew: %v\n%s", m.file, err, out)
		}
	}
}

// TestMutants puts each mistake into a copy of the tree and runs the test that must notice it, as many at once as the
// machine has cores: most of a mistake's time is that of a compiler that waits for itself. It does nothing without the
// flag -mutants; `make mutants` sets it.
func TestMutants(t *testing.T) {
	nightly.Weekly(t, *mutants != "" || *refresh, "mutants")
	wanted, err := regexp.Compile(*mutants)
	if err != nil {
		t.Fatal(err)
	}
	dir, sound := t.TempDir(), &soundTests{binaries: map[string]string{}, passed: map[string]bool{}}
	copies := make(chan *treeCopy, runtime.GOMAXPROCS(0))
	for i := range cap(copies) {
		c := &treeCopy{dir: filepath.Join(dir, strconv.Itoa(i)), sound: sound}
		c.make(t)
		copies <- c
	}
	for _, m := range readMutants(t) {
		name := strings.TrimSuffix(filepath.Base(m.file), ".patch")
		if !*refresh && !wanted.MatchString(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := <-copies
			defer func() { copies <- c }()
			defer c.clean(t)
			if *refresh {
				c.apply(t, m)
			} else {
				c.try(t, m)
			}
		})
	}
}

// treeCopy is a copy of the tree in which mistakes are made, one after the other. It is a git repository of its own,
// which also knows the files that the patches were made from, so that git can merge.
type treeCopy struct {
	dir   string
	sound *soundTests
}

// soundTests are the tests as they are without a mistake, for all copies.
type soundTests struct {
	mu       sync.Mutex
	binaries map[string]string // compiled tests, by folder
	passed   map[string]bool   // tests that were tried; false: they were skipped
}

// make copies what git would commit, changes that are not committed included.
func (c *treeCopy) make(t *testing.T) {
	t.Helper()
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(treeRoot)
	if err != nil {
		t.Fatal(err)
	}
	objects := strings.TrimSpace(mustGit(t, root, "rev-parse", "--path-format=absolute", "--git-path", "objects"))
	mustGit(t, c.dir, "init", "--quiet", ".")
	alternates := filepath.Join(c.dir, ".git", "objects", "info", "alternates")
	if err := os.WriteFile(alternates, []byte(objects+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(c.dir, ".git")
	mustGit(t, root, "--git-dir", own, "--work-tree", root, "add", "--all", ".")
	mustGit(t, c.dir, "-c", "user.name=nobody", "-c", "user.email=nobody@localhost", "commit", "--quiet", "-m", "tree")
	c.clean(t)
}

// clean removes the last mistake.
func (c *treeCopy) clean(t *testing.T) {
	t.Helper()
	mustGit(t, c.dir, "reset", "--quiet", "--hard")
}

// try makes one mistake and runs its test. A test that does not pass without the mistake shows nothing.
func (c *treeCopy) try(t *testing.T, m mutant) {
	t.Helper()
	if !c.passes(t, m) {
		t.Skipf("%s of %s is skipped on this machine", m.test, m.folder)
	}
	c.apply(t, m)
	if out, err := c.run(t, m, c.compile(t, m, "mutant.test")); err == nil {
		t.Errorf("%s of %s passes with this mistake:\n%s\n%s", m.test, m.folder, m.text, out)
	}
}

// passes runs the test of a mistake without the mistake, once for all mistakes that it notices. It returns false where
// the test is skipped.
func (c *treeCopy) passes(t *testing.T, m mutant) bool {
	t.Helper()
	s := c.sound
	s.mu.Lock()
	defer s.mu.Unlock()
	test := m.test + " of " + m.folder
	if passed, tried := s.passed[test]; tried {
		return passed
	}
	if s.binaries[m.folder] == "" {
		s.binaries[m.folder] = c.compile(t, m, strings.ReplaceAll(m.folder, "/", "-")+".test")
	}
	out, err := c.run(t, m, s.binaries[m.folder])
	skipped := strings.Contains(out, "--- SKIP: "+m.test+" ")
	switch {
	case err != nil:
		t.Fatalf("%s fails without any mistake: %v\n%s", test, err, out)
	case !skipped && !strings.Contains(out, "--- PASS: "+m.test+" "):
		t.Fatalf("there is no test %s", test)
	}
	s.passed[test] = !skipped
	return !skipped
}

// apply puts the mistake into the copy. If git has to merge for that, the patch is written anew where that is wanted.
func (c *treeCopy) apply(t *testing.T, m mutant) {
	t.Helper()
	file, err := filepath.Abs(m.file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := git(t, c.dir, "apply", "--index", file); err == nil {
		return
	}
	out, err := git(t, c.dir, "apply", "--index", "-C1", file) // the lines beside may have changed
	if err != nil {
		out, err = git(t, c.dir, "apply", "--3way", file)
	}
	if err != nil {
		c.clean(t)
		t.Fatalf("%s does not apply, and git cannot merge it; make the mistake anew: %v\n%s", m.file, err, out)
	}
	if !*refresh {
		t.Errorf("%s applies only with a merge; write it anew with `make mutants REFRESH=1`", m.file)
		return
	}
	head, _, _ := strings.Cut(m.text, "\n")
	text := head + "\n" + mustGit(t, c.dir, "diff", "--cached")
	if err := os.WriteFile(m.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// compile compiles the mutant's test into a file of the copy's own. What does not compile is no mistake that a test
// could notice.
func (c *treeCopy) compile(t *testing.T, m mutant, name string) string {
	t.Helper()
	binary := filepath.Join(c.dir, ".git", name)
	// The copy's folder is no part of the cache with -trimpath, so packages that do not depend on the mistake come from
	// it.
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-trimpath", "-buildvcs=false", "-vet=off",
		"-ldflags=-s -w", "-o", binary, "./"+m.folder)
	build.Dir = c.dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("it does not compile: %v\n%s", err, out)
	}
	return binary
}

// run runs the mutant's test from a compiled file.
func (c *treeCopy) run(t *testing.T, m mutant, binary string) (string, error) {
	t.Helper()
	parts := strings.Split(m.test, "/")
	for i := range parts {
		parts[i] = "^" + regexp.QuoteMeta(parts[i]) + "$"
	}
	run := exec.CommandContext(t.Context(), binary, "-test.v", "-test.timeout=3m",
		"-test.run="+strings.Join(parts, "/"))
	run.Dir = filepath.Join(c.dir, filepath.FromSlash(m.folder))
	out, err := run.CombinedOutput()
	return string(out), err
}
