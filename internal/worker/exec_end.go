package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"syscall"

	"github.com/pawl-dev/pawl/policy"
)

// said is what a process says about its own failure.
type said struct {
	Failed       bool   `json:"failed"`
	Kind         string `json:"kind"`
	Type         string `json:"type"`
	Message      string `json:"message"`
	NonRetryable bool   `json:"nonRetryable"`
	Code         int    `json:"code"`
	RetryAfter   any    `json:"retryAfter"`
}

// conclude makes the result of a process that ended by itself.
func conclude(p *process, out *capture, results *resultFile) Result {
	output := out.output(p.code())
	code := output["exitCode"]
	out.merge(output)
	values, err := results.read()
	for name, value := range values {
		output[name] = value
	}
	output["exitCode"] = code

	failure := p.failure(out)
	if word := out.word(); word != nil {
		failure = word.apply(failure, p.code())
	}
	if failure == nil && err != nil {
		failure = &policy.Failure{Kind: policy.KindFailed, Type: "invalid_output", Message: err.Error()}
	}
	if failure != nil && failure.Details == nil {
		failure.Details = EncodeJSON(out.details())
	}
	return Result{Output: EncodeJSON(output), Failure: failure}
}

// failure says how the process failed; nil: it exited with 0.
func (p *process) failure(out *capture) *policy.Failure {
	f := &policy.Failure{Kind: policy.KindError, Type: "exit", Code: p.code()}
	sig, killed := p.signal()
	switch {
	case killed:
		f.Type = "signal"
		f.Message = fmt.Sprintf("killed by signal %d (%s)", int(sig), sig)
	case f.Code == 0:
		return nil
	default:
		f.Message = fmt.Sprintf("exit code %d", f.Code)
	}
	f.Message += out.lastWords()
	if killed && sig == syscall.SIGKILL {
		f.Message += "; if nobody did it, the machine may be out of memory"
	}
	return f
}

// apply adds the process's own words to its failure, or makes one of them.
func (s *said) apply(f *policy.Failure, code int) *policy.Failure {
	if f == nil && !s.Failed {
		return nil
	}
	if s.Failed {
		was := ""
		if f != nil {
			was = f.Message
		}
		f = &policy.Failure{Kind: policy.KindFailed, Type: "failed", Code: code, Message: was}
		if s.RetryAfter != nil {
			f.Kind = policy.KindError
		}
	}
	switch s.Kind {
	case "error":
		f.Kind = policy.KindError
	case "failed":
		f.Kind = policy.KindFailed
	}
	if s.Type != "" {
		f.Type = s.Type
	}
	if s.Message != "" {
		f.Message = s.Message
	}
	if s.Code != 0 {
		f.Code = s.Code
	}
	f.NonRetryable = f.NonRetryable || s.NonRetryable
	if s.RetryAfter != nil {
		wish, err := policy.DecodeDuration(s.RetryAfter)
		if err != nil {
			f.Message += fmt.Sprintf(" (its retryAfter was ignored: %v)", err)
		} else {
			f.RetryAfter = &wish
		}
	}
	return f
}

func notFound(message string) *policy.Failure {
	return &policy.Failure{Kind: policy.KindFailed, Type: "not_found", Message: message}
}

// startFailure says why a process could not be started.
func startFailure(cmd *exec.Cmd, err error) *policy.Failure {
	name := cmd.Args[0]
	switch {
	case errors.Is(err, fs.ErrPermission):
		return notFound(fmt.Sprintf("%s cannot be executed; make it executable (chmod +x), or check who may use its folder", name))
	case errors.Is(err, fs.ErrNotExist):
		return notFound(fmt.Sprintf("%s was found, but not the interpreter its first line names; install it, or correct the line", name))
	case errors.Is(err, syscall.ENOEXEC):
		return notFound(fmt.Sprintf("%s is no program this machine can run; begin a script with a line such as #!/bin/sh", name))
	case errors.Is(err, syscall.E2BIG):
		return &policy.Failure{
			Kind: policy.KindFailed, Type: "too_large",
			Message: name + ": the arguments and the environment are too large together; give the data on stdin or in a file",
		}
	case errors.Is(err, syscall.EINVAL) && strings.Contains(strings.Join(append(cmd.Args, cmd.Env...), ""), "\x00"):
		return &policy.Failure{
			Kind: policy.KindFailed, Type: "invalid_payload",
			Message: name + ": an argument or environment variable contains a zero byte; give such data on stdin",
		}
	}
	return &policy.Failure{Kind: policy.KindError, Type: "start", Message: fmt.Sprintf("%s could not be started: %v", name, err)}
}

// merge adds what the last JSON line says to the output.
func (c *capture) merge(output map[string]any) {
	line := c.stdout.json
	if line == nil {
		return
	}
	line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
	var object map[string]json.RawMessage
	if line[0] != '{' || json.Unmarshal(line, &object) != nil {
		output["value"] = json.RawMessage(line)
		return
	}
	for name, value := range object {
		output[name] = value
	}
}
