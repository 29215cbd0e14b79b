package sim

import (
	"io"
	"time"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Options shape universes. Zero values are useful.
type Options struct {
	Runs       int           // how many starts clients send at least; default 8
	Span       time.Duration // how long clients and faults are active at most; default 1h
	Steps      int           // after that many steps a universe that is not over hangs; default 60,000
	Partitions int           // 0: drawn
	Calm       bool          // no faults, no crashes: for measuring, and for telling whose fault something is
	Trace      io.Writer     // what happens, a line a step; nil: nobody wants to know
	// CrashAt kills the process at the boundary of a commit with that number, counted from 1, and at no other; 0: at
	// random boundaries; below 0: at none.
	CrashAt int
	// Wrap lays something over the journal, as a test does that wants to see the checks bite.
	Wrap func(journal.Journal) journal.Journal
	// Tamper is shown the runs in the engine's memory before each check, for the same purpose.
	Tamper func(*core.Run)
	// Bodies lays something over the host of the runs' bodies, Calls over the engine as that host sees it, and
	// Shell over its timers and goroutines. Decide hands on what a body of that generation has decided. They have
	// the same purpose.
	Bodies func(engine.Bodies) engine.Bodies
	Calls  func(body.EngineCalls) body.EngineCalls
	Shell  func(body.Shell) body.Shell
	Decide func(d Decision)
}

// Decision is what a body has decided, on its way to the engine.
type Decision struct {
	Partition  *engine.Partition
	Call       *engine.Call
	Generation int // of the body
	Current    int // of those that are called now
	At         core.Time
}

func (d Decision) take() { d.Partition.Handle(d.Call, d.At) }

func (o Options) withDefaults() Options {
	if o.Runs <= 0 {
		o.Runs = 8
	}
	if o.Span <= 0 {
		o.Span = time.Hour
	}
	if o.Decide == nil {
		o.Decide = Decision.take
	}
	if o.Steps <= 0 {
		o.Steps = 60_000
	}
	return o
}

// Report tells what a universe was like.
type Report struct {
	Seed       uint64
	Steps      int
	Batches    int
	Entries    int
	Runs       int
	Attempts   int
	Crashes    int
	Messages   int // between partitions
	Panics     int // of deciders, by a bug that is planted in some universes
	Partitions int
	Owners     int // how often a process took a partition over, the first owners included
	Boundaries int // of commits: where CrashAt can kill the process
	Rewound    int // steps that retries have dropped
	Kills      int // of poisonous steps
	Poisoned   int // poisonous steps that were stopped
	Lasted     time.Duration
	Hash       uint64 // of all that became durable, in order
}

// Run lives one universe. The error is a *[Violation] where something did not hold that must.
func Run(seed uint64, opt Options) (Report, error) {
	u := newUniverse(seed, opt.withDefaults())
	u.live()
	u.owners(func(n *node) { n.host.kill() })
	b := u.book
	r := Report{
		Seed: seed, Steps: u.steps, Batches: b.batches, Entries: b.entries, Runs: len(b.order), Attempts: b.attempts,
		Crashes: u.crashes, Messages: b.messages, Panics: u.bug.panics, Partitions: u.mood.partitions, Owners: u.nodes,
		Boundaries: u.boundary, Rewound: b.rewound, Kills: u.poison.kills, Poisoned: b.poisoned, Lasted: u.now.Sub(epoch), Hash: b.hash.Sum64(),
	}
	if u.broken == nil {
		return r, nil
	}
	v := u.broken
	if opt.Trace != nil {
		b.tail(opt.Trace, 3)
	}
	v.Seed, v.Step, v.At, v.Story = seed, u.steps, u.now, b.story(v.Run)
	return r, v
}
