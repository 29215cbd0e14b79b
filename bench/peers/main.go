// Command peers gives the same work to Pawl and to other engines, in turns, and prints a table of what each needs.
// It is a module of its own, so that Pawl does not depend on what it is compared with.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"
)

// A peer is an engine that can be started. Its database is empty.
type peer struct {
	name string
	open func(ctx context.Context, dir, postgres string) (engine, error)
	// onServer: its data is in PostgreSQL, whose processor time is counted with its own.
	onServer bool
}

// An engine does a work once and returns when its result is known to the caller.
type engine interface {
	once(ctx context.Context, w work) error
	close() error
}

// A work is what all peers do.
type work struct {
	name    string
	steps   int // one after the other
	fails   int // attempts of each step that fail before one does not
	clients int
}

// pause is the time between two attempts of a step that fails.
const pause = 10 * time.Millisecond

var works = []work{
	{name: "onestep", steps: 1, clients: 256},
	{name: "tenstep", steps: 10, clients: 256},
	{name: "retry", steps: 1, fails: 2, clients: 256},
	{name: "latency", steps: 1, clients: 1},
}

var peers = []peer{
	{"Pawl, SQLite", openPawlFile, false},
	{"Pawl, PostgreSQL", openPawlServer, true},
	{"River, PostgreSQL", openRiver, true},
}

func main() {
	log.SetFlags(0)
	var o options
	flag.StringVar(&o.postgres, "postgres", "", "DSN of a superuser on a server of this machine that has nothing else"+
		" to do; schemas pawl_peers and river_peers are dropped")
	flag.StringVar(&o.table, "write", "", "a Markdown file whose table between the marks is replaced")
	flag.IntVar(&o.rounds, "rounds", 3, "how many times each peer takes its turn")
	flag.DurationVar(&o.warm, "warm", 3*time.Second, "how long each turn runs before it is measured")
	flag.DurationVar(&o.length, "window", 10*time.Second, "how long each turn is measured")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := o.run(ctx); err != nil {
		log.Fatal("peers: ", err)
	}
}

type options struct {
	postgres, table string
	rounds          int
	warm, length    time.Duration
}

// run lets the peers take turns at each work.
func (o options) run(ctx context.Context) error {
	if o.rounds < 1 || o.length <= 0 || flag.NArg() > 0 {
		return fmt.Errorf("-rounds must be at least 1, -window longer than 0, and nothing follows the flags")
	}
	server, err := findServer(ctx, o.postgres)
	if err != nil {
		return err
	}
	disk, err := openFloor()
	if err != nil {
		return err
	}
	defer disk.close()
	var all []cell
	var missing []string
	for _, w := range works {
		turns, why := o.rotate(ctx, w, server, disk)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, p := range peers {
			if err := why[p.name]; err != nil {
				missing = append(missing, fmt.Sprintf("%s, %s: %v", w.name, p.name, err))
				continue
			}
			all = append(all, cell{w, p, middle(turns[p.name])})
		}
	}
	return o.report(all, missing, disk)
}

// rotate lets the peers take turns at a work. One that fails is not asked again, and why says the reason.
func (o options) rotate(ctx context.Context, w work, server *server, disk *floor) (turns map[string][]turn,
	why map[string]error,
) {
	turns, why = map[string][]turn{}, map[string]error{}
	for range o.rounds {
		for _, p := range peers {
			if why[p.name] != nil || ctx.Err() != nil {
				continue
			}
			err := disk.sample(32)
			var t turn
			if err == nil {
				t, err = o.turn(ctx, p, w, server)
			}
			if err != nil {
				why[p.name] = err
				log.Printf("SKIPPED: %s, %s: %v", w.name, p.name, err)
				continue
			}
			log.Printf("%-8s %-18s %s", w.name, p.name, t)
			turns[p.name] = append(turns[p.name], t)
		}
	}
	return turns, why
}

// turn opens a peer on an empty database and measures one window.
func (o options) turn(ctx context.Context, p peer, w work, server *server) (t turn, err error) {
	dir, err := os.MkdirTemp(".", "turn-")
	if err != nil {
		return turn{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if p.onServer {
		if err := server.clear(ctx); err != nil {
			return turn{}, err
		}
	} else {
		server = nil
	}
	e, err := p.open(ctx, dir, o.postgres)
	if err != nil {
		return turn{}, err
	}
	defer func() {
		if closed := e.close(); err == nil {
			err = closed
		}
	}()
	return measure(ctx, e, w, server, o.warm, o.length)
}
