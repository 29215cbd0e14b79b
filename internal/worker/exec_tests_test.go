package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestJUnitSources checks that a failed test has its time, and its source as it is seen from where the flow runs: a
// path that counts from the folder of the step gets that folder, another one stays.
func TestJUnitSources(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("sub/api", 0o700); err != nil {
		t.Fatal(err)
	}
	cases := ""
	for _, file := range []string{"a.py", "sub/api/a.py", "/abs/a.py", "../a.py", "", "gone.py"} {
		cases += "<testcase name='t' time='1.5' file='" + file + "' line='3'><failure message='no'/></testcase>"
	}
	for name, text := range map[string]string{"a.py": "", "r.xml": "<testsuite>" + cases + "</testsuite>"} {
		if err := os.WriteFile(filepath.Join("sub/api", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := filepath.Abs("sub/api")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"sub/api", whole} {
		results, err := (&ExecPayload{Dir: dir, Tests: []string{"r.xml"}}).tests()
		if err != nil || len(results.Failures) != 6 {
			t.Fatalf("%+v, %v", results, err)
		}
		for i, want := range []string{"sub/api/a.py", "sub/api/a.py", "/abs/a.py", "../a.py", "", "sub/api/gone.py"} {
			if f := results.Failures[i]; f.File != want || f.Line != 3 || f.Seconds != 1.5 {
				t.Errorf("%d: %+v, want the file %q", i, f, want)
			}
		}
	}
}

// TestJUnitFiles checks what is read of the JUnit files of a step, and what is no file of that kind.
func TestJUnitFiles(t *testing.T) {
	t.Parallel()
	many := "<testsuites>" + strings.Repeat("<testsuite name='s'><testsuite name='inner'>"+
		"<testcase name='t'><error>\n  at line 3\nmore</error></testcase></testsuite>"+
		"<testcase name='p'/></testsuite>", 60) + "</testsuites>"
	for name, c := range map[string]struct{ text, want string }{
		"many":   {many, "120 tests: 60 passed, 60 failed"},
		"empty":  {"", "no file of JUnit"},
		"other":  {"<html></html>", "no file of JUnit"},
		"broken": {"<testsuite><testcase name=", "XML syntax error"},
		"binary": {"\x00\xff\x00", "tests: r.xml: "},
		"large":  {"<!--" + strings.Repeat("x", mostTestBytes) + "-->", "larger than 16 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &ExecPayload{Dir: t.TempDir(), Tests: []string{"*.xml"}}
			if err := os.WriteFile(filepath.Join(p.Dir, "r.xml"), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			results, err := p.tests()
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = results.String()
				f := results.Failures
				if len(f) != mostFailedTests || f[0].Suite != "inner" || f[0].Message != "at line 3" {
					t.Errorf("failures: %d, the first %+v", len(f), f[0])
				}
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
