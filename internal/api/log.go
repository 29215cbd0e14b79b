package api

import "context"

// LogPlace is a position in the output of an attempt of an exec step.
type LogPlace struct {
	Step    string // the step's key
	Attempt int
	From    int64 // the number of bytes before it
}

// LogPart is a part of an attempt's output, stdout and stderr in the order in which they came.
type LogPart struct {
	Text []byte `json:"text,omitempty"` // the text, at most 256 KiB; empty: there is no more at present
	Next int64  `json:"next"`           // where the next part begins
}

// LogReader reads what attempts print, also while they run. It is beside Service because logs are files on the machine
// that executed the attempt.
type LogReader interface {
	// Log returns the part of a log at a place. Errors: CodeNotFound (no such run, or the attempt has no log here),
	// CodeInvalid.
	Log(ctx context.Context, run string, at LogPlace) (LogPart, error)
}
