package service

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// A cursor is a version, the place of the last run that the page looked at, and a sum of these and of the query. The
// place is the run's deadline and id. Ids grow with time and never change. So the next page neither repeats nor
// misses a run, even if runs begin or end between the two pages; one whose deadline is moved meanwhile may come twice
// or not at all. The sum refuses a cursor that was changed, or that belongs to another query.
const (
	cursorVersion = 1
	cursorSum     = 8
)

func cursor(q *api.Query, last *journal.RunRow) string {
	b := binary.BigEndian.AppendUint64([]byte{cursorVersion}, uint64(last.Deadline))
	b = append(b, last.ID[:]...)
	return base64.RawURLEncoding.EncodeToString(append(b, sumOf(q, b)...))
}

func readCursor(q *api.Query) (last core.RunID, deadline core.Time, err error) {
	if q.Cursor == "" {
		return last, 0, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(q.Cursor)
	place := max(0, len(b)-cursorSum)
	switch {
	case err != nil || place != 1+8+len(last) || b[0] != cursorVersion:
		return last, 0, &api.Error{
			Code:    api.CodeInvalid,
			Message: fmt.Sprintf("%q is not a cursor of a list of runs", q.Cursor),
		}
	case !bytes.Equal(b[place:], sumOf(q, b[:place])):
		return last, 0, &api.Error{
			Code:    api.CodeInvalid,
			Message: fmt.Sprintf("%q is not a cursor of this list: it was changed, or another query gave it", q.Cursor),
			Hint:    "ask for the next page with the same query as for the page before; only limit may differ",
		}
	}
	copy(last[:], b[9:place])
	return last, core.Time(binary.BigEndian.Uint64(b[1:])), nil
}

// sumOf returns the sum of a place in the list of a query.
func sumOf(q *api.Query, place []byte) []byte {
	same := *q
	same.Cursor, same.Limit = "", 0
	text, _ := json.Marshal(same) // which never fails; keys of mappings are sorted
	sum := sha256.Sum256(append(append([]byte("pawl cursor\n"), text...), place...))
	return sum[:cursorSum]
}

func definitionID(text string) (id core.DefinitionID, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(id) {
		return id, &api.Error{Code: api.CodeInvalid, Message: fmt.Sprintf("%q is not the id of a definition", text)}
	}
	copy(id[:], b)
	return id, nil
}
