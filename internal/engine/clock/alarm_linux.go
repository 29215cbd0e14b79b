package clock

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Alarm rings at an instant of the wall clock. Go's timers sleep in whole milliseconds while the process is idle; the
// alarm is a timer of the system, which is exact to some microseconds. It also rings when the wall clock is set, and at
// once when the machine wakes up after the instant.
type Alarm struct {
	rings chan struct{}
	fd    int
	file  *os.File // the File of fd
}

// NewAlarm returns an alarm, or nil if there are none, or the process has a clock of its own, as in a test.
func NewAlarm() *Alarm {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
		return nil
	}
	if d := time.Until(time.Unix(now.Unix())); d < -time.Second || d > time.Second {
		return nil
	}
	fd, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil
	}
	a := &Alarm{rings: make(chan struct{}, 1), fd: fd, file: os.NewFile(uintptr(fd), "alarm")}
	go a.listen()
	return a
}

func (a *Alarm) listen() {
	for {
		_, err := a.file.Read(make([]byte, 8))
		if err != nil && !errors.Is(err, unix.ECANCELED) { // that: the clock was set
			return
		}
		select {
		case a.rings <- struct{}{}:
		default:
		}
	}
}

// Set makes the alarm ring at an instant, and at no other one.
func (a *Alarm) Set(at time.Time) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(at.UnixNano(), 1))}
	// If it fails, the loop's timer is there still.
	_ = unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET, &spec, nil)
}

// Rings receives a value when the alarm rings.
func (a *Alarm) Rings() <-chan struct{} { return a.rings }

// Close ends the alarm.
func (a *Alarm) Close() { _ = a.file.Close() }
