package worker

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/joshdk/go-junit"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/artifact"
	"github.com/pawl-dev/pawl/internal/regular"
	"github.com/pawl-dev/pawl/policy"
)

const (
	mostTestFiles    = 1000
	mostTestBytes    = 16 << 20 // the size of all files together
	mostFailedTests  = 50       // failed tests that are named
	longestTestWords = 300      // characters of a name or message
)

// readTests reads the JUnit files of an attempt that has ended by itself, and adds their results to its output or its
// failure. One that failed may not have made all of them, so what is missing is told in its log alone.
func readTests(p *ExecPayload, out *capture, res *Result) {
	if len(p.Tests) == 0 {
		return
	}
	results, err := p.tests()
	switch {
	case err == nil && res.Failure == nil:
		res.Output = WithField(res.Output, "tests", results)
	case err == nil:
		res.Failure.Details = WithField(res.Failure.Details, "tests", results)
		if f := res.Failure; f.Type == "exit" && results.Failed > 0 {
			f.Message = fmt.Sprintf("exit code %d: %d of %d tests failed, first %s", f.Code, results.Failed,
				results.Total, results.Failures[0].Title())
		}
	case res.Failure == nil:
		res.Failure = &policy.Failure{Kind: policy.KindFailed, Type: "tests", Message: err.Error()}
	default:
		out.log.write(StreamPawl, []byte("\n[pawl: "+err.Error()+"]\n"))
	}
}

// tests reads the JUnit files that the payload names.
func (p *ExecPayload) tests() (*api.TestResults, error) {
	folder, failure := p.folder()
	if failure != nil {
		return nil, failure
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	found, err := artifact.Find("tests", root, p.Tests, mostTestFiles)
	if err != nil {
		return nil, err
	}
	results, left := &api.TestResults{}, int64(mostTestBytes)
	for _, path := range found.Paths {
		if _, err := root.Stat(path); err != nil && found.Links[path] {
			continue // it leads nowhere
		}
		file, err := regular.OpenIn(root, path)
		if err != nil {
			return nil, fmt.Errorf("tests: %w", err)
		}
		text, err := io.ReadAll(io.LimitReader(file, left+1))
		_ = file.Close() // it was only read
		if left -= int64(len(text)); err == nil && left < 0 {
			err = fmt.Errorf("the files are larger than %d MiB", mostTestBytes>>20)
		}
		var suites []junit.Suite
		if err == nil {
			suites, err = junit.Ingest(text)
		}
		if err == nil && len(suites) == 0 {
			err = fmt.Errorf("%s is no file of JUnit", path)
		}
		if err != nil {
			return nil, fmt.Errorf("tests: %s: %w", path, err)
		}
		p.addSuites(results, root, suites)
	}
	return results, nil
}

// addSuites adds the tests of suites, and of those within them.
func (p *ExecPayload) addSuites(to *api.TestResults, root *os.Root, suites []junit.Suite) {
	for _, suite := range suites {
		p.addSuites(to, root, suite.Suites)
		for _, test := range suite.Tests {
			to.Total++
			switch test.Status {
			case junit.StatusPassed:
				to.Passed++
			case junit.StatusSkipped:
				to.Skipped++
			default:
				to.Failed++
				if len(to.Failures) < mostFailedTests {
					to.Failures = append(to.Failures, p.failedTest(root, &suite, &test))
				}
			}
		}
	}
}

func (p *ExecPayload) failedTest(root *os.Root, suite *junit.Suite, test *junit.Test) api.FailedTest {
	f := api.FailedTest{Suite: test.Classname, Name: oneLine(test.Name), Message: oneLine(test.Message)}
	if f.Suite == "" {
		f.Suite = suite.Name
	}
	f.Suite = oneLine(f.Suite)
	if f.Message == "" && test.Error != nil {
		f.Message = oneLine(test.Error.Error())
	}
	f.File = p.source(root, oneLine(test.Properties["file"]))
	f.Line, _ = strconv.Atoi(test.Properties["line"]) // 0: it is not told
	f.Seconds = test.Duration.Seconds()
	return f
}

// source returns the path of a test's source as CI systems count it, from the folder in which the flow runs. Programs
// count from the folder of the step, which is put in front, unless the file is found only without that.
func (p *ExecPayload) source(root *os.Root, file string) string {
	folder := p.Dir
	if here, err := os.Getwd(); err == nil && filepath.IsAbs(folder) {
		if below, err := filepath.Rel(here, folder); err == nil {
			folder = below
		}
	}
	if file == "" || folder == "" || !filepath.IsLocal(file) || !filepath.IsLocal(folder) {
		return file
	}
	_, within := root.Stat(file)
	if _, err := os.Stat(file); err == nil && within != nil {
		return file
	}
	return filepath.ToSlash(filepath.Join(folder, file))
}

// oneLine returns the first line of a text that is not empty, cut to a length that fits a list.
func oneLine(text string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return Shorten(strings.TrimSpace(ValidText([]byte(first))), longestTestWords)
}

// WithField adds a key to an object.
func WithField(object []byte, key string, value any) []byte {
	fields := map[string]json.RawMessage{}
	if len(object) > 0 && json.Unmarshal(object, &fields) != nil {
		return object
	}
	fields[key] = EncodeJSON(value)
	return EncodeJSON(fields)
}
