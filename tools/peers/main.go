// Command peers gives the same work to Pawl and to other engines, in turns, and prints a table of the costs of each. It
// is a separate module, so that Pawl does not depend on the systems that it is compared with.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A peer is an engine that can be started. Its database is empty.
type peer struct {
	name string
	open func(ctx context.Context, dir, postgres string) (engine, error)
	// onServer: its data is in PostgreSQL, whose processor time is counted with its own.
	onServer bool
	// parks is after how long it unloads runs that wait, if it does not at once.
	parks time.Duration
	// prepare is called once, before the turns of all works. Nil: there is nothing to prepare.
	prepare func(ctx context.Context) error
}

// An engine does a work once and returns when its result is known to the caller.
type engine interface {
	once(ctx context.Context, w work) error
	// start starts a run and does not wait for it.
	start(ctx context.Context, j job) error
	// process is the id of a process that does its work beside this one; 0 if there is none.
	process() int
	close() error
}

var peers = []peer{
	{name: "Pawl, SQLite", open: openPawlFile},
	{name: "Pawl, PostgreSQL", open: openPawlServer, onServer: true},
	{name: "River, PostgreSQL", open: openRiver, onServer: true},
	{name: "Restate", open: openRestate, parks: 70 * time.Second},
	{name: "Temporal's SDK on Pawl, SQLite", open: openGatewayFile, prepare: buildGateway},
	{name: "Temporal's SDK on Pawl, PostgreSQL", open: openGatewayServer, onServer: true, prepare: buildGateway},
	{name: "Temporal, SQLite", open: openTemporalFile, prepare: buildTemporal},
	{name: "Temporal, PostgreSQL", open: openTemporalServer, onServer: true, prepare: buildTemporal},
}

func main() {
	log.SetFlags(0)
	var o options
	flag.StringVar(&o.postgres, "postgres", "", "DSN of a superuser on a server of this machine that has nothing else"+
		" to do; schemas pawl_peers and river_peers are dropped")
	flag.StringVar(&o.tables, "write", "", "Markdown files, separated by commas, whose table between the marks is"+
		" replaced")
	flag.StringVar(&o.works, "works", "", "the works, separated by commas (default all)")
	flag.StringVar(&o.peers, "peers", "", "the peers, separated by semicolons (default all)")
	flag.IntVar(&o.rounds, "rounds", 3, "how many times each peer takes its turn")
	flag.DurationVar(&o.warm, "warm", 3*time.Second, "how long each turn runs before it is measured")
	flag.DurationVar(&o.length, "window", 10*time.Second, "how long each turn is measured")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch command := flag.Arg(0); command {
	case turnCommand, killedCommand, finishCommand:
		err = o.serve(ctx, command, flag.Args()[1:])
	default:
		err = o.run(ctx)
	}
	if err != nil {
		log.Fatal("peers: ", err)
	}
}

type options struct {
	postgres, tables, works, peers string
	rounds                         int
	warm, length                   time.Duration
}

// choose returns those of all whose names are in a list, or all of them if the list is empty.
func choose[T any](all []T, list, separator string, name func(T) string) ([]T, error) {
	if list == "" {
		return all, nil
	}
	var chosen []T
	for _, wanted := range strings.Split(list, separator) {
		i := slices.IndexFunc(all, func(v T) bool { return name(v) == strings.TrimSpace(wanted) })
		if i < 0 {
			return nil, fmt.Errorf("there is no %q", wanted)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// run gives the peers turns at each work.
func (o options) run(ctx context.Context) error {
	if o.rounds < 1 || o.length <= 0 || flag.NArg() > 0 {
		return fmt.Errorf("-rounds must be at least 1, -window longer than 0, and nothing follows the flags")
	}
	todo, err := choose(works, o.works, ",", func(w work) string { return w.name })
	if err != nil {
		return fmt.Errorf("-works: %w", err)
	}
	peers, err := choose(peers, o.peers, ";", func(p peer) string { return p.name })
	if err != nil {
		return fmt.Errorf("-peers: %w", err)
	}
	var server *server
	if slices.ContainsFunc(peers, func(p peer) bool { return p.onServer }) {
		if server, err = findServer(ctx, o.postgres); err != nil {
			return err
		}
	}
	disk, err := openFloor()
	if err != nil {
		return err
	}
	defer disk.close()
	var all []cell
	var missing []string
	unable := prepare(ctx, peers)
	for _, w := range todo {
		turns, why := o.rotate(ctx, w, peers, server, disk, unable)
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

// prepare prepares the peers, and reports which are unable to take part.
func prepare(ctx context.Context, peers []peer) map[string]error {
	unable := map[string]error{}
	for _, p := range peers {
		if p.prepare == nil {
			continue
		}
		if err := p.prepare(ctx); err != nil {
			unable[p.name] = err
			log.Printf("SKIPPED: %s: %v", p.name, err)
		}
	}
	return unable
}

// rotate gives the peers turns at a work. One that fails, or is unable to take part, is not asked again, and why has
// the reason.
func (o options) rotate(
	ctx context.Context, w work, peers []peer, server *server, disk *floor, unable map[string]error,
) (
	turns map[string][]turn, why map[string]error,
) {
	turns, why = map[string][]turn{}, maps.Clone(unable)
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
			log.Printf("%-8s %-20s %s", w.name, p.name, w.table.row(t, t))
			turns[p.name] = append(turns[p.name], t)
		}
	}
	return turns, why
}

// turnCommand makes this program do one turn. Each is a separate process, so that nothing of a peer affects the next
// one: no memory for its collector, no goroutine that has not ended yet.
const turnCommand = "turn"

// longestTurn is what a turn may take in addition to its window.
const longestTurn = 5 * time.Minute

// killWhole puts a process into a group of its own, which is killed as a whole: it may have started a server.
func killWhole(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// because returns the last output of a process as the reason why it failed.
func because(err error, said string) error {
	if text := lastLine(said); text != "" {
		return errors.New(text)
	}
	return err
}

// turn gives a peer an empty database and measures one window.
func (o options) turn(ctx context.Context, p peer, w work, server *server) (t turn, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.warm+o.length+longestTurn,
		fmt.Errorf("the turn has not ended %s after its window", longestTurn))
	defer cancel()
	dir, err := os.MkdirTemp(".", "turn-")
	if err != nil {
		return turn{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if p.onServer {
		if err := server.clear(ctx); err != nil {
			return turn{}, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return turn{}, err
	}
	cmd := exec.CommandContext(ctx, self, "-postgres", o.postgres, "-warm", o.warm.String(), "-window",
		o.length.String(), turnCommand, p.name, w.name, dir)
	killWhole(cmd)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return turn{}, context.Cause(ctx)
	}
	if err != nil {
		return turn{}, because(err, said.String())
	}
	return t, json.Unmarshal(out, &t)
}

// lastLine returns the last line that a process has printed.
func lastLine(said string) string {
	said = strings.TrimSpace(said)
	return strings.TrimPrefix(said[strings.LastIndexByte(said, '\n')+1:], "peers: ")
}

// serve does the work of a process that is started for a turn, or for a part of one.
func (o options) serve(ctx context.Context, command string, args []string) (err error) {
	if len(args) != 3 {
		return fmt.Errorf("%s needs a peer, a work and a folder", command)
	}
	which := slices.IndexFunc(peers, func(p peer) bool { return p.name == args[0] })
	what := slices.IndexFunc(works, func(w work) bool { return w.name == args[1] })
	if which < 0 || what < 0 {
		return fmt.Errorf("there is no peer %q or no work %q", args[0], args[1])
	}
	s := stage{options: o, peer: peers[which], work: works[what], dir: args[2]}
	if command != turnCommand {
		return serveRecovery(ctx, s, command == finishCommand)
	}
	if s.peer.onServer {
		if s.database, err = findServer(ctx, o.postgres); err != nil {
			return err
		}
	}
	t, err := s.work.measure(ctx, s)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(t)
}
