package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const day = 24 * time.Hour

// TestApproval says something to a change at instants of days, and looks at what became of it and what was done.
func TestApproval(t *testing.T) {
	type says map[int]string // the messages by day
	for name, c := range map[string]struct {
		says
		want string // the result, or a part of the error
		log  string
		took int // days
	}{
		"approved": {
			says{1: "c ada yes", 2: "c works"},
			"approved by ada, works",
			"mail-team apply", 2,
		},
		"works before": {
			says{1: "c works", 2: "c ada yes"},
			"approved by ada, works",
			"mail-team apply", 2,
		},
		"by the manager": {
			says{10: "c eve yes", 11: "c works"},
			"approved by eve, works",
			"mail-team mail-manager apply", 11,
		},
		"does not work": {says{1: "c ada yes"}, "taken back", "mail-team apply take-back", 8},
		"refused":       {says{1: "c ada no"}, "refused by ada", "mail-team", 1},
		"nobody":        {nil, "nobody has decided", "mail-team mail-manager", 14},
		"his own":       {says{1: "c bob yes"}, "nobody has decided", "mail-team mail-manager", 14},
		"first his own": {says{1: "c bob yes", 2: "c ada no"}, "refused by ada", "mail-team", 2},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			w := (&office{&log, 7 * day}).workflow()
			pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
				begin := time.Now()
				r, err := w.Start(t.Context(), e, "c", change{"c", "bob"})
				if err != nil {
					t.Fatal(err)
				}
				for at := range 15 {
					if line, said := c.says[at]; said {
						_, err := send(t.Context(), e, strings.Fields(line), pawl.SendID(line))
						if own := strings.Contains(line, "bob"); own != (err != nil) {
							t.Errorf("%s: %v", line, err)
						}
						e.Settle()
						e.Crash() // the messages sent so far are not lost
					}
					if at < c.took {
						e.Skip(day)
					}
				}
				out, err := pawl.RunOf[string](e, r.ID).Result(t.Context())
				if err != nil && errors.Is(err, pawl.ErrDeadlineExceeded) {
					out = err.Error()
				}
				if !strings.Contains(out, c.want) {
					t.Errorf("%s, %v, want %s", out, err, c.want)
				}
				if took := time.Since(begin); took != time.Duration(c.took)*day {
					t.Errorf("it took %s, want %d days", took, c.took)
				}
				done := strings.Join(strings.Fields(strings.ReplaceAll(log.String(), "c ", " ")), " ")
				if done != c.log {
					t.Errorf("done was %s, want %s", done, c.log)
				}
			}, w)
		})
	}
}

func TestApprovalShowsWhatItWaitsFor(t *testing.T) {
	w := (&office{&strings.Builder{}, 7 * day}).workflow()
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		if _, err := w.Start(t.Context(), e, "c", change{"c", "bob"}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"waits for a decision of the team", "waits for a decision of the manager"} {
			e.Settle()
			if got, err := send(t.Context(), e, []string{"c"}, nil); got != want || err != nil {
				t.Errorf("%s, %v, want %s", got, err, want)
			}
			e.Skip(7 * day)
		}
	}, w)
}
