package policy_test

import (
	"math"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/policy"
)

func TestTime(t *testing.T) {
	wall := time.Date(2030, 1, 31, 18, 0, 0, 123_456_789, time.FixedZone("", 3600))
	at := policy.At(wall)
	if got, want := at.String(), "2030-01-31T17:00:00.123456Z"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if !at.Std().Equal(wall.Truncate(time.Microsecond)) {
		t.Errorf("%v is %v again", wall, at.Std())
	}
	if at.Add(time.Hour).Sub(at) != time.Hour || at.Sub(at.Add(time.Hour)) != -time.Hour {
		t.Error("an hour is not an hour")
	}
	var none policy.Time
	if !none.Std().IsZero() || none.String() != "-" {
		t.Errorf("no instant is %v, %s", none.Std(), none)
	}
}

// epoch is an instant of these years.
const epoch policy.Time = 1_700_000_000_000_000

func TestTimeSaturates(t *testing.T) {
	if got := policy.FarFuture.Add(time.Hour); got != policy.FarFuture {
		t.Errorf("got %d", got)
	}
	if got := epoch.Add(math.MaxInt64); got <= epoch {
		t.Errorf("got %d", got)
	}
	if got := policy.FarFuture.Sub(-1); got != math.MaxInt64 {
		t.Errorf("got %v", got)
	}
	if got := policy.FarFuture.Sub(1); got != math.MaxInt64 {
		t.Errorf("got %v", got)
	}
	if got := policy.Time(-2).Sub(policy.FarFuture); got != math.MinInt64 {
		t.Errorf("got %v", got)
	}
}

func TestEarlier(t *testing.T) {
	for _, test := range []struct{ a, b, want policy.Time }{{0, 0, 0}, {0, 5, 5}, {5, 0, 5}, {5, 7, 5}, {7, 5, 5}} {
		if got := test.a.Earlier(test.b); got != test.want {
			t.Errorf("Earliest(%d, %d) = %d", test.a, test.b, got)
		}
	}
}
