package service

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/golden"
	"github.com/pawl-dev/pawl/internal/journal"
)

// TestForms checks that answers that are stored, and cursors that callers keep, are as version 0.1.0 had them.
func TestForms(t *testing.T) {
	golden.Form(t, "answer.json", golden.Full[storedAnswer](),
		func(v storedAnswer) ([]byte, error) { return journal.EncodeDocument(documentVersion, v) },
		func(text []byte) (out storedAnswer, err error) {
			return out, journal.DecodeDocument(text, documentVersion, &out)
		})
	q, last := api.Query{Workflow: "w"}, journal.RunRow{ID: core.RunID{1, 2, 3}, Deadline: 7}
	q.Cursor = string(golden.Same(t, "cursor.txt", []byte(cursor(&q, &last))))
	if id, deadline, err := readCursor(&q); id != last.ID || deadline != last.Deadline || err != nil {
		t.Errorf("%s, %d, %v", id, deadline, err)
	}
}
