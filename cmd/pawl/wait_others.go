package main

import (
	"fmt"
	"time"
)

// othersLook is how often a command that is done looks whether others still follow runs through it.
const othersLook = 50 * time.Millisecond

// waitForOthers waits while other commands follow runs through this one: their attempts would be cut off. A signal ends
// the waiting.
func (a *app) waitForOthers(m *machine) {
	if m.Streams() == 0 {
		return
	}
	fmt.Fprintln(a.Err, "pawl: other commands follow runs through this one; it stays until these have ended "+
		"(Ctrl-C: at once)")
	look := time.NewTicker(othersLook)
	defer look.Stop()
	for m.Streams() > 0 {
		select {
		case <-look.C:
		case <-m.signals:
			return
		case <-m.Done():
			return
		}
	}
}
