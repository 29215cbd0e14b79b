package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawltest"
)

const day = 24 * time.Hour

// TestApproval says something to a change at instants of days, and looks at what became of it and what was done.
func TestApproval(t *testing.T) {
	for name, c := range map[string]struct {
		say  map[time.Duration]string
		want string // the result, or a part of the error
		log  string
		took time.Duration
	}{
		"approved":         {map[time.Duration]string{day: "c ada yes", 2 * day: "c works"}, "approved by ada, works", "mail-team apply", 2 * day},
		"works before":     {map[time.Duration]string{day: "c works", 2 * day: "c ada yes"}, "approved by ada, works", "mail-team apply", 2 * day},
		"refused":          {map[time.Duration]string{day: "c ada no"}, "refused by ada", "mail-team", day},
		"by the manager":   {map[time.Duration]string{10 * day: "c eve yes", 11 * day: "c works"}, "approved by eve, works", "mail-team mail-manager apply", 11 * day},
		"does not work":    {map[time.Duration]string{day: "c ada yes"}, "taken back", "mail-team apply take-back", 8 * day},
		"nobody":           {nil, "nobody has decided", "mail-team mail-manager", 14 * day},
		"only the author":  {map[time.Duration]string{day: "c bob yes"}, "nobody has decided", "mail-team mail-manager", 14 * day},
		"after the author": {map[time.Duration]string{day: "c bob yes", 2 * day: "c ada no"}, "refused by ada", "mail-team", 2 * day},
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
					if line, said := c.say[time.Duration(at)*day]; said {
						_, err := send(t.Context(), e, strings.Fields(line), pawl.SendID(line))
						if own := strings.Contains(line, "bob"); own != (err != nil) {
							t.Errorf("%s: %v", line, err)
						}
						e.Settle()
						e.Crash() // what was said is not lost
					}
					if at < int(c.took/day) {
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
				if took := time.Since(begin); took != c.took {
					t.Errorf("it took %s, want %s", took, c.took)
				}
				if got := strings.Join(strings.Fields(strings.ReplaceAll(log.String(), "c ", " ")), " "); got != c.log {
					t.Errorf("done was %s, want %s", got, c.log)
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
