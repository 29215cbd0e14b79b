package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestClosedLoopOfASlowMachine checks that something is counted where nothing ends in the length that was asked for.
func TestClosedLoopOfASlowMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(context.Context) error {
			<-time.After(10 * time.Second)
			return nil
		}
		w, err := closedLoop(t.Context(), 2, time.Second, time.Second, slow, nil)
		if err != nil || len(w.all) == 0 || w.took < 9*time.Second || !(w.rate() > 0) {
			t.Errorf("%d in %s, %v", len(w.all), w.took, err)
		}
	})
}
