package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"reflect"
	"strings"
	"syscall"

	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/policy"
)

// ownFailure is a failure that a process reports about itself, on a line of stdout.
type ownFailure struct {
	Failed       bool   `json:"failed"`
	Kind         string `json:"kind"`
	Type         string `json:"type"`
	Message      string `json:"message"`
	NonRetryable bool   `json:"nonRetryable"`
	Code         int    `json:"code"`
	RetryAfter   any    `json:"retryAfter"`

	ignored *json.UnmarshalTypeError // a field that is of another type
}

// conclude makes the result of a process that ended by itself.
func conclude(p *process, out *capture, results *resultFile, b *box) Result {
	values, err := results.read()
	failure := p.failure(out, results.ownFailure != nil || out.stdout.ownFailure != nil)
	if b != nil && failure != nil {
		b.explain(failure, out.stderr.text())
	}
	own := results.ownFailure
	if own == nil {
		own = out.stdout.ownFailure
	}
	if own != nil {
		failure = own.apply(failure, p.code())
	}
	if err == nil && out.stdout.oversized {
		err = fmt.Errorf("the last JSON line on stdout is longer than %d bytes; "+
			"write large results to a file of your own and print its path", lineSize)
	}
	if failure == nil && err != nil {
		failure = &policy.Failure{Kind: policy.KindFailed, Type: "invalid_output", Message: err.Error()}
	}
	if failure != nil && failure.Details == nil {
		failure.Details = EncodeJSON(out.details())
	}
	return Result{Output: out.encode(p.code(), values), Failure: failure}
}

// failure describes how the process failed. It is nil if the process exited with 0. told is set if the process has said
// what went wrong.
func (p *process) failure(out *capture, told bool) *policy.Failure {
	f := &policy.Failure{Kind: policy.KindError, Type: "exit", Code: p.code()}
	sig, killed := p.signal()
	switch {
	case killed:
		f.Type = "signal"
		f.Message = fmt.Sprintf("killed by signal %d (%s)", int(sig), sig)
	case f.Code == 0:
		return nil
	case f.Code < 0:
		f.Message = "how the process ended is not known, since another part of this program waited for it"
	default:
		f.Message = fmt.Sprintf("exit code %d", f.Code)
	}
	f.Message += out.lastOutput(told)
	if killed && sig == syscall.SIGKILL {
		f.Message += "; if nobody killed it, the machine may be out of memory"
	}
	return f
}

// apply adds what the process reported to f, the failure that its exit code gave. If the process reported Failed, that
// replaces f, also where the exit code was 0 and f is nil.
func (o *ownFailure) apply(f *policy.Failure, code int) *policy.Failure {
	if f == nil && !o.Failed {
		return nil
	}
	if o.Failed {
		message := ""
		if f != nil {
			message = f.Message
		}
		f = &policy.Failure{Kind: policy.KindFailed, Type: "failed", Code: code, Message: message}
		if o.RetryAfter != nil {
			f.Kind = policy.KindError // the process asks for a retry, and failed is not retried by default
		}
	}

	switch o.Kind {
	case "error":
		f.Kind = policy.KindError
	case "failed":
		f.Kind = policy.KindFailed
	case "timeout":
		f.Kind = policy.KindTimeout // something that the process waited for; no limit of the step has expired
	}
	if o.Type != "" {
		f.Type = o.Type
	}
	if o.Message != "" {
		f.Message = o.Message
	}
	if o.Code != 0 {
		f.Code = o.Code
	}
	f.NonRetryable = f.NonRetryable || o.NonRetryable
	if o.RetryAfter != nil {
		after, err := decode.Duration(o.RetryAfter)
		if err != nil {
			f.Message += fmt.Sprintf(" (its retryAfter was ignored: %v)", err)
		} else {
			f.RetryAfter = &after
		}
	}
	if bad := o.ignored; bad != nil {
		name := bad.Field[strings.LastIndexByte(bad.Field, '.')+1:]
		f.Message += fmt.Sprintf(" (its %s was ignored: a JSON %s where %s is expected)", name, bad.Value,
			jsonKinds[bad.Type.Kind()])
	}
	f.Message = strings.TrimSpace(f.Message)
	return f
}

// jsonKinds are the types of the fields in the words of JSON.
var jsonKinds = map[reflect.Kind]string{
	reflect.Bool: "a boolean", reflect.Int: "a whole number", reflect.String: "a string",
}

func notFound(message string) *policy.Failure {
	return &policy.Failure{Kind: policy.KindFailed, Type: "not_found", Message: message}
}

// startFailure explains why a process could not be started.
func startFailure(cmd *exec.Cmd, err error) *policy.Failure {
	name := cmd.Args[0]
	switch {
	case errors.Is(err, fs.ErrPermission):
		return notFound(name + " cannot be executed; make it executable (chmod +x), or check who may use its folder")
	case errors.Is(err, fs.ErrNotExist):
		return notFound(name + " was found, but the interpreter in its first line was not; install it, or correct " +
			"the line")
	case errors.Is(err, syscall.ENOEXEC):
		return notFound(name + " is not a program that this machine can run; start a script with a line such as " +
			"#!/bin/sh")
	case errors.Is(err, syscall.E2BIG):
		return &policy.Failure{
			Kind: policy.KindFailed, Type: "too_large",
			Message: name + ": the arguments and the environment together are too large; give the data on stdin or " +
				"in a file",
		}
	case errors.Is(err, syscall.EINVAL) && strings.Contains(strings.Join(append(cmd.Args, cmd.Env...), ""), "\x00"):
		return &policy.Failure{
			Kind: policy.KindFailed, Type: "invalid_payload",
			Message: name + ": an argument or environment variable contains a zero byte; give such data on stdin",
		}
	}
	return &policy.Failure{
		Kind: policy.KindError, Type: "start",
		Message: fmt.Sprintf("%s could not be started: %v", name, err),
	}
}

// merge adds the values of the last JSON line to the output.
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
