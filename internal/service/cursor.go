package service

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
)

// cursorVersion is the first byte of a cursor. The id of the last run of the page follows. Ids grow with time and
// never change. So the next page neither repeats nor misses a run, even if runs begin or end between the two pages.
const cursorVersion = 1

func cursor(last core.RunID) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{cursorVersion}, last[:]...))
}

func readCursor(text string) (last core.RunID, err error) {
	if text == "" {
		return last, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != 1+len(last) || b[0] != cursorVersion {
		return last, &api.Error{
			Code:    api.CodeInvalid,
			Message: fmt.Sprintf("%q is not a cursor of a list of runs", text),
		}
	}
	copy(last[:], b[1:])
	return last, nil
}

func definitionID(text string) (id core.DefinitionID, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(id) {
		return id, &api.Error{Code: api.CodeInvalid, Message: fmt.Sprintf("%q is not the id of a definition", text)}
	}
	copy(id[:], b)
	return id, nil
}
