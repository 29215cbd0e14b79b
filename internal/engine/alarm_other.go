//go:build !linux

package engine

import "time"

// alarm is only made on Linux.
type alarm struct{ rings chan struct{} }

func newAlarm() *alarm { return nil }

func (a *alarm) set(time.Time) {}

func (a *alarm) close() {}
