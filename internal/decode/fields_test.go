package decode_test

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/decode"
)

func TestDuration(t *testing.T) {
	for _, v := range []any{
		3.5, math.NaN(), uint64(math.MaxUint64), int64(math.MaxInt64), -1,
		true, time.Duration(-1), nil,
	} {
		if d, err := decode.Duration(v); err == nil {
			t.Errorf("duration %v (%T) was read as %v", v, v, d)
		}
	}
}

func TestUnder(t *testing.T) {
	f := decode.Read(map[string]any{"on": []any{"error", 1}}, "on")
	f.Texts("on")
	err := decode.Under(f.Err(), "steps", "charge", "retry")
	var field *decode.Error
	if !errors.As(err, &field) || !slices.Equal(field.Path, []string{"steps", "charge", "retry", "on", "1"}) {
		t.Fatalf("got %#v", err)
	}
	if decode.Under(nil, "steps") != nil {
		t.Error("nothing is wrong under steps")
	}
}

func TestUnknown(t *testing.T) {
	known := []string{"", "error", "timeout", "lost"}
	for word, want := range map[string]string{
		"eror": `unknown kind "eror"; did you mean "error"?`,
		"xyz":  `unknown kind "xyz"; use error, timeout or lost`,
	} {
		if got := decode.Unknown("kind", word, known); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
