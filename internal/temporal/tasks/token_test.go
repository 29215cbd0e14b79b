package tasks

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
)

// TestTaskTokens checks that the token of a workflow task is read as it was written, and in no other way.
func TestTaskTokens(t *testing.T) {
	want := token{core.RunID{1, 2, 3}, 1 << 63, 300, 7, 9, 1_800_000_000_000_000, 2}
	b := want.bytes()
	if got, ok := readToken(b); !ok || got != want {
		t.Errorf("%+v, %t", got, ok)
	}
	for n := range b {
		if _, ok := readToken(b[:n]); ok {
			t.Errorf("%d bytes of it are a token", n)
		}
	}
	if _, ok := readToken(append(b, 0)); ok {
		t.Error("a longer one is a token")
	}
	if _, ok := readToken(append([]byte{'a'}, b[1:]...)); ok {
		t.Error("one of another form is a token")
	}
}
