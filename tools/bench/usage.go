package main

import (
	"fmt"
	"time"
)

// usage is the cost of a span of time, and how much other processes disturbed it.
type usage struct {
	took   time.Duration
	cpu    time.Duration // processor time of this process and its ended children
	others float64       // cores that other processes kept busy; a disturbance, where it is not nearly 0
}

// meter starts to measure usage. The function that it returns ends that.
func meter() func() usage {
	from, own, all := time.Now(), processor(), machineBusy()
	return func() usage {
		u := usage{took: time.Since(from), cpu: processor() - own}
		if busy := machineBusy() - all; busy > u.cpu {
			u.others = (busy - u.cpu).Seconds() / u.took.Seconds()
		}
		return u
	}
}

// String describes the disturbance. It is empty if there was none, or if it cannot be measured.
func (u usage) String() string {
	const quiet = 0.05
	if u.others < quiet {
		return ""
	}
	return fmt.Sprintf(", while other processes used %.2g cores", u.others)
}
