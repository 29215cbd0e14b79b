package api

import (
	"context"
	"iter"
)

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
	// Marks tell which stream the text came from. The first one may stand before the text. Without marks all of it is
	// from stdout, or from a time when streams were not told apart.
	Marks []LogMark `json:"marks,omitempty"`
}

// LogMark says where text of one stream begins, and when it was read.
type LogMark struct {
	From   int64  `json:"from"`                                       // the number of bytes before it
	Stream string `json:"stream,omitempty" enum:"stdout,stderr,pawl"` // pawl: what Pawl adds; missing: not known
	At     Time   `json:"at"`                                         // one stream has a mark a second at most
}

// Runs yields the text in pieces, each of one stream.
func (p LogPart) Runs() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		from, stream := p.Next-int64(len(p.Text)), ""
		at := from
		for _, m := range p.Marks {
			if m.From > at && !yield(stream, p.Text[at-from:m.From-from]) {
				return
			}
			at, stream = max(at, m.From), m.Stream
		}
		if at < p.Next {
			yield(stream, p.Text[at-from:])
		}
	}
}

// LogReader reads what attempts print, also while they run. It is beside Service because logs are files on the machine
// that executed the attempt.
type LogReader interface {
	// Log returns the part of a log at a place. Errors: CodeNotFound (no such run, or the attempt has no log here),
	// CodeInvalid.
	Log(ctx context.Context, run string, at LogPlace) (LogPart, error)
}
