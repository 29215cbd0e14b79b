package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/daemon/folder"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/service"
)

// devAddress is where pawl dev listens. 7295 is PAWL on the keys of a telephone.
const devAddress = "127.0.0.1:7295"

func (a serverVerbs) devCommand() *cobra.Command {
	var listen string
	var reaching reaching
	cmd := &cobra.Command{
		Use: "dev [FOLDER]", Short: "Serve the HTTP API on this machine, on the embedded database",
		Args: cobra.MaximumNArgs(1),
		Long: `Opens the database, carries its open runs on, and serves the HTTP API until it is stopped. Every verb of
this command works through it: with --server http://127.0.0.1:7295, or as before, since a command that finds the
database held works through the process that holds it. The API's documents are at /docs.

With a FOLDER, its flow files can be started by name. One that has changed is read again at the next start.

It asks for no token: whoever can open a connection on this machine can start flows, and so run commands as you. It
listens on loopback addresses only, and refuses what a web page of another site asks for.`,
		Example: "  pawl dev --virtual-time --database memory: flows\n  pawl dev flows\n" +
			"  curl localhost:7295/api/v1/runs --json '{\"workflow\":\"order\"}'",
		RunE: func(cmd *cobra.Command, args []string) error {
			err := a.openFolder(args, false)
			if err != nil {
				return err
			}
			if err = reaching.read(a.app); err != nil {
				return err
			}
			return a.dev(cmd.Context(), listen)
		},
	}
	settings(cmd.Flags(), func(flags *pflag.FlagSet) {
		flags.StringVar(&listen, "listen", devAddress, "loopback address and port to listen on")
		reaching.add(flags)
	})
	a.addTemporal(cmd.Flags())
	cmd.Flags().BoolVar(&a.virtual, "virtual-time", false,
		"the clock of the runs stands until pawl time moves it; for a new database, which stays so")
	return cmd
}

// dev serves until it is stopped.
func (a serverVerbs) dev(ctx context.Context, address string) error {
	if a.server != "" {
		return usage("pawl dev is a server itself: leave --server (PAWL_SERVER) out")
	}
	l, err := listenLoopback(ctx, "listen", address, devAddress)
	if err != nil {
		return err
	}
	all, err := a.besides(ctx, l)
	if err != nil {
		return err
	}
	m, err := a.startServer(ctx)
	if err != nil {
		return errors.Join(err, all.close())
	}
	a.serve(m, all)
	a.tellServing(ctx, m, "http://"+l.Addr().String())
	return a.untilStopped(m, 0, stopWithin, nil)
}

// openFolder makes this command a server of the flows in a folder, if one is named. cluster is set where several nodes
// carry them on.
func (a serverVerbs) openFolder(args []string, cluster bool) error {
	path := ""
	if len(args) > 0 {
		path = args[0]
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			return usage("there is no folder %q", path)
		}
	}
	a.folder = folder.New(path, &a.flows, cluster)
	return nil
}

// startServer opens the database and a daemon on it. Another process must not have it.
func (a serverVerbs) startServer(ctx context.Context) (*machine, error) {
	m, err := a.start(ctx, true)
	if err == nil && m.remote != nil {
		err = errors.Join(fmt.Errorf("%s is held by another pawl command: stop that one, or name another --database",
			m.place.Name()), m.close())
	}
	return m, err
}

// listenLoopback listens on an address that only this machine reaches. The flag gives the address; errors say to write
// it as the example.
func listenLoopback(ctx context.Context, flag, address, example string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, usage("--%s %q: write it as %s", flag, address, example)
	}
	if host == "localhost" || host == "" { // every port of the machine itself, and not one of its networks
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.IsLoopback() {
		return nil, usage("--%s %s: it asks for no token, so it is for this machine only; write it as %s",
			flag, address, example)
	}
	address = net.JoinHostPort(host, port)
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, inUse(flag, address, err)
	}
	return l, nil
}

// tellServing reports what is served, and where.
func (a serverVerbs) tellServing(ctx context.Context, m *machine, address string) {
	if a.structured() {
		_ = a.print(map[string]string{"server": address, "database": m.place.Name()}) // the reader may have gone
		return
	}
	a.say("serving %s (a page for the browser; the API: %s/docs)", address, address)
	a.say("database %s", m.place.Name())
	if a.temporal != "" {
		a.say("workers and clients of Temporal's SDKs at %s", a.temporal)
	}
	if m.clock != nil {
		a.say("time is stopped at %s; pawl time moves it", m.clock.Now())
	}
	a.say("up to %d processes of steps run at once (--processes)", a.processes())
	if a.folder.Path() != "" {
		var names []string
		for _, f := range a.folder.Flows() {
			if f.Problem != "" {
				fmt.Fprintf(a.Err, "pawl: %s\n", f.Problem)
				continue
			}
			names = append(names, f.Name)
			a.warnOfFlow(ctx, f)
		}
		if len(names) == 0 {
			names = []string{"none: no file of " + a.folder.Path() + " is a flow (*.yaml, *.yml, *.json)"}
		}
		a.say("flows %s", strings.Join(names, ", "))
	}
	a.say("Ctrl-C stops it; what is open goes on when it is started again")
}

// warnOfFlow prints which steps of a flow of the folder wait for workers in other processes.
func (a serverVerbs) warnOfFlow(ctx context.Context, f api.Flow) {
	d, err := a.folder.Find(ctx, f.Name)
	if err != nil {
		return // it was reported before, or the file has just changed
	}
	stored, err := service.Definition(d)
	if err != nil {
		return
	}
	if c, err := a.stored(stored); err == nil {
		a.warnOfTasks(c, nil)
		if err := a.checkPlaceholders(ctx, c.Doc, false); err != nil {
			fmt.Fprintf(a.Err, "pawl: %v\n", err)
		}
	}
}

// stopWithin is how long requests may take to be answered when the server stops. Streams are cut then.
const stopWithin = time.Second

// untilStopped serves until a signal comes or the engine ends. Then drain is how long the server still answers, though
// it reports that it is not ready, and within is the time that open requests get after that. hangup is called for each
// SIGHUP; nil if that signal stops it too.
func (a serverVerbs) untilStopped(m *machine, drain, within time.Duration, hangup func()) error {
	var ended error
	for waiting := true; waiting; {
		waiting, ended = a.untilSignal(m, hangup)
	}
	signal.Stop(m.signals) // a second signal ends the process at once
	if a.guard != nil {
		_ = tellSystemd("STOPPING=1") // if that fails, it notices the end of the process
	}
	if ended != nil {
		drain = 0
	}
	m.Drain(drain)
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	defer a.closeTracer() // the end of the engine makes spans, too
	return errors.Join(ended, m.Shutdown(ctx))
}

// untilSignal waits for the next thing that happens to a server. It reports whether the server goes on.
func (a serverVerbs) untilSignal(m *machine, hangup func()) (bool, error) {
	select {
	case s := <-m.signals:
		if s == syscall.SIGHUP && hangup != nil {
			hangup()
			return true, nil
		}
		return false, nil
	case err := <-m.Ended():
		return false, err
	case <-m.Done():
		if errors.Is(m.Err(), journal.ErrGone) {
			return false, m.Err()
		}
		return false, fmt.Errorf("%w\nWhat was acknowledged is safe; start it again", m.Err())
	}
}

// inUse explains why an address, which a flag names, cannot be listened on.
func inUse(flag, address string, err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("listen on %s: %w; ports below 1024 are the system's: choose another one with --%s",
			address, err, flag)
	}
	return fmt.Errorf("listen on %s: %w; another program may use the port: choose another one with --%s",
		address, err, flag)
}
