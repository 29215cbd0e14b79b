package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// suite is a run as JUnit has it: each step, or item of one, is a test.
type suite struct {
	XMLName   xml.Name `xml:"testsuite"`
	Name      string   `xml:"name,attr"`
	Tests     int      `xml:"tests,attr"`
	Failures  int      `xml:"failures,attr"`
	Skipped   int      `xml:"skipped,attr"`
	Time      string   `xml:"time,attr"`
	Timestamp string   `xml:"timestamp,attr"`
	Cases     []testCase
}

type testCase struct {
	XMLName   xml.Name `xml:"testcase"`
	Class     string   `xml:"classname,attr"`
	Name      string   `xml:"name,attr"`
	File      string   `xml:"file,attr,omitempty"`
	Line      int      `xml:"line,attr,omitempty"`
	Time      string   `xml:"time,attr"`
	Failure   *finding `xml:"failure"`
	Skipped   *finding `xml:"skipped"`
	SystemOut string   `xml:"system-out,omitempty"`
}

type finding struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes a run as a file of JUnit, which CI systems show as tests.
func WriteJUnit(w io.Writer, r *api.Run, now api.Time) error {
	s := suite{Name: r.Workflow, Timestamp: r.CreatedAt.Std().UTC().Format("2006-01-02T15:04:05")}
	end := r.EndedAt
	if end == 0 {
		end = now
	}
	s.Time = seconds(end.Sub(r.CreatedAt))
	for _, step := range Rows(r) {
		c := caseOf(r, step, now)
		s.Tests++
		switch {
		case c.Failure != nil:
			s.Failures++
		case c.Skipped != nil:
			s.Skipped++
		}
		s.Cases = append(s.Cases, c)
		if results := step.Tests(); results != nil {
			for _, f := range results.Failures {
				s.Tests++
				s.Failures++
				s.Cases = append(s.Cases, testCase{
					Class: c.Name + " " + f.Suite, Name: f.Name, File: f.File, Line: f.Line,
					Time: fmt.Sprintf("%.3f", f.Seconds), Failure: &finding{Message: f.Message},
				})
			}
		}
	}
	names, why := NotBegun(r)
	for _, name := range names {
		s.Tests++
		s.Skipped++
		s.Cases = append(s.Cases, testCase{
			Class: r.Workflow, Name: name, Time: seconds(0), Skipped: &finding{Message: why},
		})
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(s); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func caseOf(r *api.Run, s *api.Step, now api.Time) testCase {
	c := testCase{Class: r.Workflow, Name: s.Step, Time: seconds(Worked(s, now))}
	if s.ItemName != "" {
		c.Name += " " + s.ItemName
	}
	switch s.Phase {
	case api.StepSucceeded:
	case api.StepSkipped:
		c.Skipped = &finding{Message: s.Why}
	case api.StepFailed, api.StepTimedOut, api.StepCancelled:
		c.Failure = &finding{Message: s.Why, Type: string(s.Phase), Text: attemptsOf(s)}
	default:
		c.Skipped = &finding{Message: "it has not ended: " + string(s.Phase)}
	}
	return c
}

// Worked returns how long a step has worked: what its attempts took, without the time in which it waited for a worker,
// a limit or its next attempt. A step without attempts, such as a sleep, has taken all of its time.
func Worked(s *api.Step, now api.Time) (took time.Duration) {
	until := func(end api.Time) api.Time {
		if end == 0 {
			return now
		}
		return end
	}
	if len(s.Attempts) == 0 {
		return until(s.EndedAt).Sub(s.ScheduledAt)
	}
	for i := range s.Attempts {
		took += until(s.Attempts[i].EndedAt).Sub(s.Attempts[i].StartedAt)
	}
	return took
}

// attemptsOf lists the attempts of a step with their failures.
func attemptsOf(s *api.Step) string {
	var b strings.Builder
	for _, a := range s.Attempts {
		fmt.Fprintf(&b, "attempt %d: %s %s\n", a.Attempt, a.Outcome, a.Why)
	}
	return b.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
