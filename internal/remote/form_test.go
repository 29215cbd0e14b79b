package remote

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/golden"
)

// TestForms checks that the token of an attempt, which a worker keeps while it works, is as version 0.1.0 had it.
func TestForms(t *testing.T) {
	tok := core.Token{Run: core.RunID{1, 2, 3}, Step: 300, Attempt: 2}
	text := golden.Same(t, "token.txt", []byte(tokenText(tok, 1<<63+7)))
	if got, secret, err := readToken(string(text)); got != tok || secret != 1<<63+7 || err != nil {
		t.Errorf("%+v, %d, %v", got, secret, err)
	}
}
