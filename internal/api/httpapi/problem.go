package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/pawl-dev/pawl/internal/api"
)

// ProblemType is the media type of an answer that reports an error.
const ProblemType = "application/problem+json"

// Problem is an error on the wire, as RFC 9457 has it. Its members carry all fields of an *api.Error.
type Problem struct {
	Title     string   `json:"title"`
	Status    int      `json:"status"`
	Detail    string   `json:"detail" doc:"Sentence that says what happened."`
	Code      api.Code `json:"code" doc:"Code for programs: not_found, conflict, … New codes may be added."`
	Operation string   `json:"operation,omitempty" doc:"Operation that was asked for."`
	ID        string   `json:"id,omitempty" doc:"The run or workflow id that it was about."`
	Hint      string   `json:"hint,omitempty" doc:"Advice on what you can do next."`
	Errors    []Fault  `json:"errors,omitempty" doc:"Each thing that is wrong with the request."`
}

// Fault is one thing that is wrong with a request.
type Fault struct {
	Pointer   string `json:"pointer,omitempty" doc:"JSON pointer into the body."`
	Parameter string `json:"parameter,omitempty" doc:"The parameter of the path or the query, or the header."`
	Detail    string `json:"detail"`
}

// ProblemOf returns the problem that reports an error.
func ProblemOf(err error) *Problem {
	var own *api.Error
	if !errors.As(err, &own) {
		own = &api.Error{Code: api.CodeOf(err), Err: err}
	}
	status := own.Code.HTTPStatus()
	return &Problem{
		Title: titleOf(status), Status: status, Detail: own.Reason(), Code: own.Code, Operation: own.Op, ID: own.ID,
		Hint: own.Hint,
	}
}

// Invalid returns the problem of a malformed request, with a status that may be more precise than 400.
func Invalid(status int, detail string, faults ...Fault) *Problem {
	return &Problem{Title: titleOf(status), Status: status, Detail: detail, Code: api.CodeInvalid, Errors: faults}
}

func titleOf(status int) string {
	if title := http.StatusText(status); title != "" {
		return title
	}
	return "Client Closed Request" // 499, which net/http does not name
}

// Error returns the problem's detail.
func (p *Problem) Error() string { return p.Detail }

// GetStatus returns the status of the answer.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders returns the headers of the answer: when to ask again, if that helps, and which credentials to send.
func (p *Problem) GetHeaders() http.Header {
	switch {
	case p.Status == http.StatusServiceUnavailable, p.Code == api.CodeLimited:
		return http.Header{"Retry-After": {"1"}}
	case p.Status == http.StatusUnauthorized:
		return http.Header{"Www-Authenticate": {`Bearer realm="pawl"`}}
	}
	return nil
}

// ContentType returns the media type of a problem.
func (p *Problem) ContentType(string) string { return ProblemType }

// asError returns the error that the problem reports.
func (p *Problem) asError() error {
	detail := p.Detail
	if len(p.Errors) > 0 {
		parts := make([]string, len(p.Errors))
		for i, f := range p.Errors {
			parts[i] = strings.TrimPrefix(f.Pointer+f.Parameter+": "+f.Detail, ": ")
		}
		detail += ": " + strings.Join(parts, "; ")
	}
	return &api.Error{Code: p.Code, Op: p.Operation, ID: p.ID, Message: detail, Hint: p.Hint}
}

// readProblem returns the error of an answer with another status or form than expected. name is the server's.
func readProblem(name string, res *http.Response, body []byte) error {
	var p Problem
	if res.Header.Get("Content-Type") == ProblemType && json.Unmarshal(body, &p) == nil && p.Code != "" {
		return p.asError()
	}
	e := &api.Error{
		Code:    api.CodeInternal,
		Message: fmt.Sprintf("%s answered %s, which is not an answer of Pawl", name, res.Status),
		Hint:    "is this the address of a Pawl server?",
	}
	switch to := res.Header.Get("Location"); {
	case res.StatusCode == http.StatusRequestEntityTooLarge: // a proxy takes less than the server
		e.Code, e.Hint = api.CodeTooLarge, "let the proxy before the server take larger requests"
	case res.StatusCode < 400 && to != "":
		e.Message += ": it redirects to " + to
		e.Hint = "use the address that it redirects to"
	}
	return e
}
