package engine

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestAlarm checks that an alarm rings at its instant, not before, and only for the last one that was set.
func TestAlarm(t *testing.T) {
	a := newAlarm()
	if a == nil {
		t.Fatal("there is no alarm")
	}
	defer a.close()
	a.set(time.Now().Add(time.Hour))
	for range 3 {
		at := time.Now().Add(3 * time.Millisecond)
		a.set(at)
		<-a.rings
		if early := time.Until(at); early > 0 {
			t.Errorf("the alarm rang %s too early", early)
		}
	}
	a.set(time.Now().Add(-time.Minute)) // as after the machine was suspended
	<-a.rings
}

// TestNoAlarmInAnotherTime checks that a process whose clock is a test's has no alarm: it would ring by another clock.
func TestNoAlarmInAnotherTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if newAlarm() != nil {
			t.Error("there is an alarm")
		}
	})
}
