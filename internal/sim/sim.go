package sim

import (
	"io"
	"time"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// Options configures a universe. The zero value is useful.
type Options struct {
	Runs       int           // the clients start at least this many runs; default 8
	Span       time.Duration // clients and faults are active at most this long; default 1h
	Steps      int           // a universe that takes more steps than this fails; default 60,000
	Partitions int           // 0: the seed chooses
	Cluster    bool          // machines of a cluster share the partitions; else the seed chooses
	Share      bool          // nodes of one process share what it counts, in each universe; else the seed chooses
	NoFaults   bool          // no faults and no crashes: to measure, or to find out whether a fault causes a failure
	Trace      io.Writer     // gets one line for each step; nil: no trace
	// CrashAt kills the process at one boundary of a commit. Boundaries are counted from 1. 0: at random boundaries;
	// below 0: at none.
	CrashAt int
	// WrapJournal wraps the journal. A test uses it to plant a mistake which the checks must notice.
	WrapJournal func(journal.Journal) journal.Journal
	// ChangeMemory gets each run in the engine's memory before each check. Tests use it to plant a mistake.
	ChangeMemory func(*core.Run)
	// The next fields plant mistakes between the engine and the bodies. Bodies wraps the host of the bodies, Calls
	// wraps the engine as that host sees it, and Shell wraps the host's timers and goroutines. Decide passes a body's
	// decision to the engine.
	Bodies func(engine.Bodies) engine.Bodies
	Calls  func(body.EngineCalls) body.EngineCalls
	Shell  func(body.Shell) body.Shell
	Decide func(d Decision)
	// Search wraps the function that takes the answer when an attempt looks for its function.
	Search func(answer func(body.Answer, body.Func)) func(body.Answer, body.Func)
	// LoseRemote makes engines that are opened later not know that remote workers can reach them.
	LoseRemote bool
	// LosePromise makes engines not know that remote workers have promised to report.
	LosePromise bool
	// KeepNotBegun hides all reports that an attempt of a remote worker has not begun.
	KeepNotBegun bool
	// Services replace the limits that flows give the services of these names. The checks use those of the flows.
	Services map[string]policy.QueueLimits
	Rest     bool // runs rest in some processes, in each universe; else the seed chooses
	// CarryAll makes engines carry on the resting runs of their process.
	CarryAll bool
	// OwnMatchers gives each partition its own slots and limits, even if its process shares them.
	OwnMatchers bool
	// RunQueues replace the limits of the queues of runs of these names. The checks go by the others.
	RunQueues map[string]policy.QueueLimits
	// RewriteFlow changes the text of each flow as the engine reads it. The checks use the original flow.
	RewriteFlow func(text string) string
}

// Decision is a body's decision, before the engine gets it.
type Decision struct {
	Partition  *engine.Partition
	Call       *engine.DoCall
	Generation int // the body's generation
	Current    int // the generation of the bodies that are called now
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

// Report describes a universe that has ended.
type Report struct {
	Seed        uint64
	Steps       int
	Batches     int
	Entries     int
	Runs        int
	Attempts    int
	Crashes     int
	Messages    int // the number of messages between partitions
	Panics      int // the panics of deciders; some universes have a planted bug
	Partitions  int
	Paused      int // owners that were stopped until another one had taken over
	Stopped     int // owners that stopped by their own clock, because their lease had ended
	Given       int // partitions that were given back
	Owners      int // how often a process took over a partition, including the first owners
	Boundaries  int // the boundaries of commits; CrashAt can kill the process at each
	Rewound     int // steps that retries have dropped
	Relabelled  int // retries that have changed labels back
	Returned    int // events that retries have given back
	Kills       int // how many processes poisonous steps killed
	Poisoned    int // poisonous steps that were stopped
	VirtualTime time.Duration
	Hash        uint64 // the hash of all entries that became durable, in order
}

// Run runs the universe of one seed. If an invariant did not hold, the error is a *[Violation].
func Run(seed uint64, opt Options) (Report, error) {
	u := newUniverse(seed, opt.withDefaults())
	u.run()
	u.eachNode(func(n *node) { n.host.kill() })
	ch := u.checker
	r := Report{
		Seed: seed, Steps: u.steps, Batches: ch.batches, Entries: ch.entries,
		Runs: len(ch.order), Attempts: ch.attempts,
		Crashes: u.crashes, Messages: ch.messages, Panics: u.bug.panics, Partitions: u.profile.partitions,
		Owners: u.nodeCount,
		Paused: u.machines.paused, Stopped: u.machines.ended, Given: u.machines.given,
		Boundaries: u.boundaries, VirtualTime: u.now.Sub(epoch), Rewound: ch.rewound,
		Relabelled: ch.relabelled, Returned: ch.returned,
		Kills: u.poison.kills, Poisoned: ch.poisoned, Hash: ch.hash.Sum64(),
	}
	if u.violation == nil {
		return r, nil
	}
	v := u.violation
	if opt.Trace != nil {
		ch.tail(opt.Trace, 3)
	}
	v.Seed, v.Step, v.At, v.Story = seed, u.steps, u.now, ch.story(v.Run)
	return r, v
}
