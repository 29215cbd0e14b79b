package engine

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/slots"
)

// withDefaults fills in the defaults, except for the clock, whose default is in clock.read.
func (c Config) withDefaults() Config {
	if c.Matcher == nil {
		c.Matcher = slots.NewMatcher()
	}
	if c.Workers != nil {
		c.Matcher.Add("", c.Workers)
		c.Workers = nil // the matcher has them now; a second call must not add them again
	}
	if c.MaxDepth <= 0 {
		c.MaxDepth = 32
	}
	if c.MaxFamily <= 0 {
		c.MaxFamily = 100_000
	}
	if c.families == nil {
		c.families = &families{open: make(map[core.RunID]int)}
	}
	if c.generations == nil {
		c.generations = new(atomic.Int64)
	}
	if c.Wake == nil {
		c.Wake = func(string, string) {}
	}
	if c.Sent == nil {
		c.Sent = func(int) {}
	}
	if c.Owner == "" {
		c.Owner = fmt.Sprintf("pid %d", os.Getpid())
	}
	if c.MaxPayload <= 0 {
		c.MaxPayload = 2 << 20
	}
	if c.FeedLimit <= 0 {
		c.FeedLimit = 256 << 20
	}
	if c.Horizon <= 0 {
		c.Horizon = 5 * time.Second
	}
	if c.Inflight <= 0 {
		c.Inflight = 4096
	}
	if c.Random == nil {
		c.Random = rand.Uint64
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
