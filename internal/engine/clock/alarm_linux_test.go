package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestAlarm checks that an alarm rings at its instant, not before, and only for the last one that was set.
func TestAlarm(t *testing.T) {
	a := NewAlarm()
	if a == nil {
		t.Fatal("there is no alarm")
	}
	defer a.Close()
	a.Set(time.Now().Add(time.Hour))
	for range 3 {
		at := time.Now().Add(3 * time.Millisecond)
		a.Set(at)
		<-a.Rings()
		if early := time.Until(at); early > 0 {
			t.Errorf("the alarm rang %s too early", early)
		}
	}
	a.Set(time.Now().Add(-time.Minute)) // as after the machine was suspended
	<-a.Rings()
}

// TestNoAlarmInAnotherTime checks that a process whose clock is a test's has no alarm: it would ring by another clock.
func TestNoAlarmInAnotherTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if NewAlarm() != nil {
			t.Error("there is an alarm")
		}
	})
}
