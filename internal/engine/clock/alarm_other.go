//go:build !linux

package clock

import "time"

// Alarm is only made on Linux.
type Alarm struct{}

// NewAlarm returns nil, because there are no alarms.
func NewAlarm() *Alarm { return nil }

// Set does nothing.
func (a *Alarm) Set(time.Time) {}

// Rings returns nil.
func (a *Alarm) Rings() <-chan struct{} { return nil }

// Close does nothing.
func (a *Alarm) Close() {}
