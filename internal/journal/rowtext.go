package journal

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/core"
)

// RowText writes several rows as one JSON array of arrays, which costs a fraction of separate rows. Instants are
// relative to At: 0 for none, else 1 more than the microseconds since then.
type RowText struct {
	Text []byte
	At   core.Time
	Fits bool // set it; it is false once there was a value that JSON or such an instant cannot express

	first bool
}

// Open begins the i-th row.
func (t *RowText) Open(i int) {
	if i > 0 {
		t.Text = append(t.Text, ',')
	}
	t.Text, t.first = append(t.Text, '['), true
}

func (t *RowText) comma() {
	if !t.first {
		t.Text = append(t.Text, ',')
	}
	t.first = false
}

// Number writes the next value of a row.
func (t *RowText) Number(n int64) {
	t.comma()
	t.Text = strconv.AppendInt(t.Text, n, 10)
}

// Instant writes the next value of a row.
func (t *RowText) Instant(at core.Time) {
	if at == 0 {
		t.Number(0)
		return
	}
	t.Fits = t.Fits && at >= t.At
	t.Number(int64(at-t.At) + 1)
}

// Close writes the last value of a row. An empty one is left out.
func (t *RowText) Close(s string) {
	if s != "" {
		t.String(s)
	}
	t.Text = append(t.Text, ']')
}

// String writes the next value of a row.
func (t *RowText) String(s string) {
	t.comma()
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			t.quoted(s)
			return
		}
	}
	t.Text = append(t.Text, '"')
	t.Text = append(t.Text, s...)
	t.Text = append(t.Text, '"')
}

func (t *RowText) quoted(s string) {
	t.Fits = t.Fits && utf8.ValidString(s) && strings.IndexByte(s, 0) < 0
	text, err := json.Marshal(s)
	t.Fits = t.Fits && err == nil
	t.Text = append(t.Text, text...)
}
