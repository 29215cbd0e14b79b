package daemon

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/caller"
	"github.com/pawl-dev/pawl/internal/cluster/share"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/internal/kind/flow"
	"github.com/pawl-dev/pawl/internal/scheduled"
	"github.com/pawl-dev/pawl/internal/server"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/internal/virtual"
	"github.com/pawl-dev/pawl/internal/worker"
)

// Config specifies what a daemon is made of. Journal and Read are needed; other zero values are useful.
type Config struct {
	Journal   journal.Journal // the open database; the daemon closes it, also when New fails
	Paths     Paths           // files and folders beside the database; nil if there are none
	Namespace string          // the namespace that the database belongs to; empty: the default one
	Clock     *virtual.Clock  // a clock that moves only when asked, if the journal has one; nil: the wall clock
	Retention time.Duration   // how long closed runs are kept; 0: forever

	// Work makes the daemon execute attempts and serve others. Without it, operations are applied, and everything else
	// waits until a process executes attempts again.
	Work    bool
	Carried *engine.Carried // the families that it carries on; nil: all
	// Callers are those that it carries families on for. nil: all steps get what this process has.
	Callers  *caller.Register
	Owner    string          // name of this process in the leases of partitions
	Observer engine.Observer // nil if nobody is told of the engine's work
	Plugins  []kind.Plugin   // the kinds of workflows
	Read     service.Read    // makes stored definitions ready
	// Processes configures the executors of steps, and Slots is how many processes run at once.
	Processes worker.ExecConfig
	Slots     int
	Bodies    bool // allows other processes to serve the workflows of Go programs

	// Flows returns the flows that are started by name, and those that were applied. served finds a workflow that other
	// processes serve; nil if they serve none. nil: there are no flows.
	Flows func(served func(name string) (journal.Definition, error)) (server.Flows, api.Catalog)
	// Compiled returns the flow that a definition is. Then flows with a cron have schedules: those that are applied,
	// and those of Files, which returns the present files of a folder; nil: there is no folder. Scheduled is told what
	// happens to the schedules; nil if nobody is.
	Compiled   func(d api.Definition) (*flow.Flow, error)
	Files      func(ctx context.Context) []scheduled.File
	Scheduled  func(text string)
	Access     *access.Keeper // tokens and the audit log. Default: those of the journal
	Issuer     Issuer         // people and programs that another system knows; nil: no other system is asked
	SessionFor time.Duration  // how long a browser stays signed in
	Guarded    bool           // callers from the network need a token
	Allow      func(r *http.Request) bool
	Limits     server.Limits
	// Connections count the connections of the listeners. nil: nobody does.
	Connections server.Connections
	Metrics     Metrics  // nil if nobody reads any
	Webhooks    Webhooks // how messages are sent
	Cluster     *Cluster // nil: this process has all partitions
	Version     string
	Routes      func(r server.Routes, svc api.Service, flows server.Flows) // further requests; nil if there is none

	Log *slog.Logger // nil if nothing is logged
	// NoSocket is called with the reason why other processes cannot work with the database through this one.
	NoSocket func(error)
	// Held is called with the reason why another process owns a partition, which may have been killed: if Held returns
	// nil, Open waits for the end of its lease.
	Held func(context.Context, *journal.HeldError) error
	// Warnings gets messages for people about webhooks and the stream of changes. nil: they are dropped.
	Warnings *slog.Logger
}

// Paths are the files and folders beside a database, and its name.
type Paths interface {
	Name() string      // the name in messages
	LogDir() string    // the folder of the attempts' logs
	OwnLogDir() string // that folder, if it contains only the logs of this database; else empty
	Socket() string    // where other processes of this machine reach the daemon; empty: nowhere
	Owner() string     // marks the processes of steps; empty: processes that outlive the daemon are not looked for
}

// Issuer knows people and programs by tokens of its own.
type Issuer interface {
	access.Issuer
	server.SignIn
	// SignsIn reports whether browsers sign in here.
	SignsIn() bool
}

// Webhooks specifies how messages are sent.
type Webhooks struct {
	Send  bool           // messages are sent; otherwise webhooks are only managed
	Allow []netip.Prefix // private addresses that they may be sent to
}

// Cluster makes the daemon one of several on its database.
type Cluster struct {
	Node *share.Node
	// Listener is where it answers the other nodes. nil: the daemon of the default namespace does so for this one.
	Listener net.Listener
}

// Metrics count events, and are served at /metrics.
type Metrics interface {
	server.Metrics
	Read(stats func() engine.Stats, streams func() int)
	ReadQueues(read func(context.Context) ([]engine.QueueStats, error))
	ReadWebhooks(counts func() []api.WebhookCounts)
	ReadCluster(total int, owned func() int, moves func() int64)
}

// Program is an engine that a Go program has opened, with the workflows that it has.
type Program struct {
	Service api.Node
	// Engine and Own are set where the program shares its database with others.
	Engine *engine.Engine
	Own    *service.Embedded
	Close  func() error // nil: the program closes it itself
}
