package server

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/policy"
)

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// forms gives the description the schemas of values that read and write their JSON themselves.
func forms(r huma.Registry) {
	r.RegisterTypeAlias(typeOf[policy.Limit](), typeOf[limitForm]())
	r.RegisterTypeAlias(typeOf[policy.Policy](), typeOf[policyForm]())
	r.RegisterTypeAlias(typeOf[policy.Failure](), typeOf[failureForm]())
}

type (
	limitForm  struct{}
	policyForm struct{}
)

func (limitForm) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Description: "A limit as in a flow file: 30m, or {after: 30m, retry: false, onExpire: cancel}."}
}

func (policyForm) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Description: "A policy as in a flow file: {retry: …, timeout: …}."}
}

// failureForm is policy.Failure in JSON.
type failureForm struct {
	Kind         string       `json:"kind,omitempty" doc:"error, failed, timeout, cancelled, lost, …"`
	Type         string       `json:"type,omitempty"`
	Message      string       `json:"message,omitempty"`
	Code         int          `json:"code,omitempty"`
	Details      any          `json:"details,omitempty"`
	NonRetryable bool         `json:"nonRetryable,omitempty"`
	RetryAfter   any          `json:"retryAfter,omitempty" doc:"A length of time, or milliseconds."`
	Limit        string       `json:"limit,omitempty" doc:"Limit that expired, of a timeout."`
	Origin       string       `json:"origin,omitempty" doc:"Place where that limit was set, of a timeout."`
	Cause        *failureForm `json:"cause,omitempty"`
	Also         []any        `json:"also,omitempty"`
	Encoded      any          `json:"encoded,omitempty"`
	Reason       string       `json:"reason,omitempty" doc:"Reason why it was not tried again."`
}

// init replaces the two functions that the library calls for every error that it makes itself.
func init() {
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return newProblem(status, msg, errs)
	}
	huma.NewErrorWithContext = func(_ huma.Context, status int, msg string, errs ...error) huma.StatusError {
		return newProblem(status, msg, errs)
	}
}

// newProblem makes a problem from the faults that the library found in a request.
func newProblem(status int, msg string, errs []error) *httpapi.Problem {
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	if msg == "validation failed" {
		msg = "the request is not valid"
	}
	p := httpapi.Invalid(status, msg)
	errs = slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	for _, err := range errs[:min(len(errs), mostFaults)] {
		p.Errors = append(p.Errors, faultOf(err))
	}
	if more := len(errs) - mostFaults; more > 0 {
		p.Errors = append(p.Errors, httpapi.Fault{Detail: fmt.Sprintf("and %d more", more)})
	}
	return p
}

// longestDetail limits the description of one fault, in bytes.
const longestDetail = 500

// faultOf returns the place of a fault: in the body by its pointer, elsewhere by the parameter.
func faultOf(err error) httpapi.Fault {
	d, ok := err.(huma.ErrorDetailer)
	if !ok {
		return httpapi.Fault{Detail: err.Error()}
	}
	detail := d.ErrorDetail()
	if len(detail.Message) > longestDetail { // it may contain a caller's own text
		detail.Message = detail.Message[:longestDetail] + "…"
	}
	where, name, _ := strings.Cut(detail.Location, ".")
	f := httpapi.Fault{Detail: detail.Message}
	switch {
	case where == "body" || strings.HasPrefix(where, "body["):
		f.Pointer = pointer(strings.TrimPrefix(detail.Location, "body"))
	default:
		f.Parameter = name
	}
	return f
}

// pointer makes a JSON pointer from a path such as .steps[3].name.
func pointer(path string) string {
	path = strings.ReplaceAll(strings.ReplaceAll(path, "~", "~0"), "/", "~1")
	return strings.NewReplacer(".", "/", "[", "/", "]", "").Replace(path)
}
