package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/internal/collector"
	"github.com/pawl-dev/pawl/internal/daemon/database"
	"github.com/pawl-dev/pawl/internal/daemon/listen"
	"github.com/pawl-dev/pawl/internal/issuer"
	"github.com/pawl-dev/pawl/internal/server"
)

// guarding is what pawl server has in addition to pawl dev: it asks for tokens, and writes a log.
type guarding struct {
	cmd          *cobra.Command
	given        []string // flags of the command line, which no file changes
	listen       string
	cert, key    string
	insecure     bool
	bounds       bounds
	level        string
	pprof        string
	stopWithin   string
	drainWithin  string
	webhookAllow []string
	namespaces   []string
	sharing      sharing
	signing      signing

	log      *slog.Logger
	logLevel slog.LevelVar
	settings map[string][]string // the settings of the configuration file, as last read
	certs    *listen.Certificate // nil: without TLS
	opened   []database.Place    // the databases of namespaces that are open
}

// ending returns how long the server takes its time when it stops.
func (g *guarding) ending() (drain, stop time.Duration, err error) {
	if stop, err = parseDuration(g.stopWithin); err != nil {
		return 0, 0, usage("--stop-within: %v", err)
	}
	if drain, err = parseDuration(g.drainWithin); err != nil {
		return 0, 0, usage("--drain-within: %v", err)
	}
	return drain, stop, nil
}

// bounds are the limits of a server, as its flags have them.
type bounds struct {
	rate, waits int // those of one token
	allWaits    int
	bodies      int // MiB
	queued      int
	connections int
}

// add adds the flags.
func (b *bounds) add(flags *pflag.FlagSet) {
	flags.IntVar(&b.rate, "rate", 0, "requests that one token may make in a second (default: as many as it wants)")
	flags.IntVar(&b.waits, "waits", 1000, "streams, polls and waits that one token may have open; 0: no limit")
	flags.IntVar(&b.allWaits, "all-waits", 10_000, "streams, polls and waits of all tokens together; 0: no limit")
	flags.IntVar(&b.bodies, "bodies", 32, "MiB of all bodies of requests that are worked on at once, 16 at least")
	flags.IntVar(&b.queued, "queued", 200_000,
		"attempts of a namespace that wait for a worker; while there are more, no run is started; 0: no limit")
	flags.IntVar(&b.connections, "connections", 0,
		"connections at once; others wait (default: what the limit of file descriptors leaves beside the work)")
}

func (b bounds) limits() server.Limits {
	return server.Limits{
		Rate: b.rate, Waits: b.waits, AllWaits: b.allWaits, Bytes: int64(b.bodies) << 20, Queued: b.queued,
	}
}

func (g *guarding) limits() server.Limits { return g.bounds.limits() }

func (a serverVerbs) serverCommand() *cobra.Command {
	g := &guarding{}
	var config string
	cmd := &cobra.Command{
		Use: "server [FOLDER]", Short: "Serve the HTTP API to others: with tokens, TLS and an audit log",
		Args: cobra.MaximumNArgs(1),
		Long: `Opens the database, carries its open runs on, and serves the HTTP API until it is stopped. Callers from
the network show a token, which pawl token create makes; commands on this machine that name the same --database work
through the socket beside it and need none. Beyond loopback it listens with TLS only.

Each flag can be a key of the file that --config names, or a variable of the environment (--listen: PAWL_LISTEN). pawl
schema config prints the file's JSON Schema. SIGHUP reads the file again: rate, waits, all-waits, bodies, queued and
log-level change at once, and namespaces that are new are opened; of the others it says that they need a restart.
Certificates are read again when their files change.

Flow files of the FOLDER are started by name. One that has changed is read again at the next start. A
namespace has its own in FOLDER/NAME. It logs as JSON on stderr, and tells systemd when it is ready.`,
		Example: "  pawl token create ada --role admin --database sqlite:/var/lib/pawl/pawl.db\n" +
			"  pawl server --config /etc/pawl/pawl.yaml /etc/pawl/flows",
		RunE: func(cmd *cobra.Command, args []string) error {
			a.guard, g.cmd, g.given = g, cmd, a.given
			if err := a.openFolder(args, g.sharing.listen != ""); err != nil {
				return err
			}
			return a.runServer(cmd.Context(), g)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&config, configFlag, "", "file with values for flags (default: the configuration file)")
	settings(flags, g.add)
	a.addTemporal(flags)
	return cmd
}

// add adds the flags. All of them are settings: people do not write the command line of a server that a supervisor
// starts.
func (g *guarding) add(flags *pflag.FlagSet) {
	flags.StringVar(&g.listen, "listen", devAddress, "address and port to listen on")
	flags.StringVar(&g.cert, "tls-cert", "", "file with the certificate and those between it and the root, as PEM")
	flags.StringVar(&g.key, "tls-key", "", "file with the certificate's key, as PEM")
	flags.BoolVar(&g.insecure, "insecure", false, "listen beyond loopback without TLS, behind a proxy that has it")
	g.bounds.add(flags)
	flags.StringVar(&g.level, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&g.pprof, "pprof", "", "loopback address and port to serve profiles on, such as 127.0.0.1:6060")
	amountVar(flags, &g.stopWithin, "stop-within", "10s", "how long requests may take to be answered when it stops")
	amountVar(flags, &g.drainWithin, "drain-within", "5s",
		"how long /readyz is 503 and all else is answered, before it stops, so that no more callers are sent to it")
	flags.StringSliceVar(&g.webhookAllow, "webhook-allow", nil,
		"private, loopback and link-local addresses that webhooks may reach, such as 127.0.0.1,10.1.0.0/16")
	flags.StringSliceVar(&g.namespaces, namespacesFlag, nil,
		"namespaces beside default: NAME, whose database lies beside the server's, or NAME=DATABASE")
	flags.StringVar(&g.sharing.listen, clusterListenFlag, "",
		"share the database with other servers: address and port to listen on for them, such as 10.0.0.5:7296")
	flags.StringVar(&g.sharing.address, clusterAddressFlag, "",
		"address and port at which the other nodes reach this one (default: that of --cluster-listen)")
	flags.StringVar(&g.sharing.secretFile, clusterSecretFlag, "",
		"file with the secret that all nodes of a cluster have")
	g.signing.add(flags)
}

// runServer serves until it is stopped.
func (a serverVerbs) runServer(ctx context.Context, g *guarding) error {
	if a.server != "" {
		return usage("pawl server is a server itself: leave --server (PAWL_SERVER) out")
	}
	if slices.Contains(g.given, "namespace") {
		return usage("--namespace is for those who call a server; which namespaces it has says --" + namespacesFlag)
	}
	a.namespace = "" // that of the environment
	drainWithin, stopWithin, err := g.ending()
	if err != nil {
		return err
	}
	if err := g.logLevel.UnmarshalText([]byte(g.level)); err != nil {
		return usage("--log-level %q: write debug, info, warn or error", g.level)
	}
	if err := g.bounds.check(); err != nil {
		return err
	}
	g.log = slog.New(slog.NewJSONHandler(a.Err, &slog.HandlerOptions{Level: &g.logLevel}))
	if a.webhookAllow, err = allowedAddresses(g.webhookAllow); err != nil {
		return err
	}
	if g.settings, err = g.readSettings(); err != nil {
		return err
	}
	if err := a.prepareSharing(g); err != nil {
		return err
	}
	if err := g.signing.prepare(ctx, g); err != nil {
		return err
	}
	if in, err := a.where(); err != nil {
		return err
	} else if err := in.Vanished(); err != nil {
		return err
	}
	all, err := a.listen(ctx, g)
	if err != nil {
		return err
	}
	profiles, err := g.openProfiles(ctx)
	if err != nil {
		return errors.Join(err, all.close())
	}
	defer profiles()
	left, err := g.sharing.open(ctx)
	if err != nil {
		return errors.Join(err, all.close())
	}
	defer left()
	m, err := a.startServer(ctx)
	if err != nil {
		return errors.Join(err, all.close())
	}
	if err := a.openNamespaces(ctx, m, g); err != nil {
		return errors.Join(err, all.close(), m.Leave(ctx), m.close())
	}
	if g.certs != nil {
		m.metrics.ReadCertificate(g.certs.Left)
	}
	defer collector.GiveBack()()
	m.serve(all)
	a.tellReady(ctx, m, g, all.http)
	err = a.untilStopped(m, drainWithin, stopWithin, func() { a.reload(ctx, m, g) })
	g.log.Info("stopped")
	return err
}

// open listens at the server's address, with TLS if there is a certificate.
func (g *guarding) open(ctx context.Context, processes int) (net.Listener, error) {
	host, _, err := net.SplitHostPort(g.listen)
	if err != nil {
		return nil, usage("--listen %q: write it as %s", g.listen, devAddress)
	}
	if (g.cert == "") != (g.key == "") {
		return nil, usage("--tls-cert and --tls-key belong together")
	}
	ip, err := netip.ParseAddr(host)
	loopback := host == "localhost" || err == nil && ip.IsLoopback()
	if !loopback && g.cert == "" && !g.insecure {
		return nil, usage("--listen %s: other machines reach this address, and tokens would be sent without "+
			"encryption; give --tls-cert and --tls-key, or --insecure behind a proxy that has TLS", g.listen)
	}
	if g.cert != "" {
		if g.certs, err = listen.ReadCertificate(g.cert, g.key, g.log, clockNow); err != nil {
			return nil, err
		}
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", g.listen)
	if err != nil {
		return nil, inUse("listen", g.listen, err)
	}
	l = listen.Bounded(l, processes, g.bounds.connections)
	if g.certs == nil {
		return listen.Strict(l), nil
	}
	return g.certs.Over(l), nil
}

// openProfiles serves profiles of the process on a separate address, because they ask for no token.
func (g *guarding) openProfiles(ctx context.Context) (stop func(), err error) {
	if g.pprof == "" {
		return func() {}, nil
	}
	l, err := listenLoopback(ctx, "pprof", g.pprof, "127.0.0.1:6060")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	g.log.Info("profiles", "address", "http://"+l.Addr().String()+"/debug/pprof/")
	return func() {
		_ = s.Close()
		<-ended //nolint:errcheck // it says that it was closed
	}, nil
}

// tellReady reports what is served, and that it is ready.
func (a serverVerbs) tellReady(ctx context.Context, m *machine, g *guarding, l net.Listener) {
	scheme := "http://"
	if g.certs != nil {
		scheme = "https://"
	}
	g.log.Info("serving", "address", scheme+l.Addr().String(), "database", m.place.Name(), "version", buildVersion(),
		"processes", a.processes())
	for _, f := range a.folder.Flows() {
		if f.Problem != "" {
			g.log.Warn("a flow cannot be started", "file", f.File, "problem", f.Problem)
		} else if d, err := a.folder.Find(ctx, f.Name); err == nil {
			if missing := m.Missing(ctx, d); missing != nil {
				g.log.Warn("a flow cannot be started", "file", f.File, "problem", missing.Error())
			}
		}
	}
	if tokens, err := m.Access().Tokens(ctx); err == nil && len(tokens) == 0 {
		g.log.Warn("there are no tokens, so nobody can use this server from the network; " +
			"pawl token create makes one")
	}
	if err := tellSystemd("READY=1"); err != nil {
		g.log.Warn("systemd is not told that the server is ready", "error", err)
	}
}

// reloadable are the flags whose change takes effect without a restart.
var reloadable = []string{"rate", "waits", "all-waits", "bodies", "queued", "log-level"}

// readSettings reads the configuration file.
func (g *guarding) readSettings() (map[string][]string, error) {
	settings, err := readConfig(configOf(g.cmd))
	if err != nil {
		return nil, asUsage(err)
	}
	return settings, nil
}

// reload reads the configuration again. If something in it is wrong, nothing changes.
func (a serverVerbs) reload(ctx context.Context, m *machine, g *guarding) {
	settings, err := g.readSettings()
	if err == nil {
		err = g.apply(settings)
	}
	if err != nil {
		g.log.Error("the configuration was not read again; the server goes on as it was", "id",
			"configuration-not-read", "error", err)
		return
	}
	m.SetLimits(g.limits())
	if g.certs != nil {
		g.certs.Look()
	}
	a.reloadNamespaces(ctx, m, g)
	g.log.Info("the configuration was read again")
}

// apply gives flags their values from the file, if they can change without a restart, and returns the names of those
// that cannot.
func (g *guarding) apply(settings map[string][]string) error {
	before := g.bounds
	for _, name := range reloadable {
		values := settings[name]
		if slices.Equal(values, g.settings[name]) || !g.fromFile(name) {
			continue
		}
		if len(values) == 0 {
			values = []string{g.cmd.Flags().Lookup(name).DefValue}
		}
		for _, v := range values {
			if err := g.cmd.Flags().Set(name, v); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	var level slog.Level
	err := g.bounds.check()
	if level.UnmarshalText([]byte(g.level)) != nil {
		err = fmt.Errorf("log-level %q: write debug, info, warn or error", g.level)
	}
	if err != nil {
		g.bounds = before // else half of the file would count
		return err
	}
	g.logLevel.Set(level)
	for _, name := range changedKeys(g.settings, settings) {
		if name != namespacesFlag && !slices.Contains(reloadable, name) && g.fromFile(name) {
			g.log.Warn("a change of the configuration needs a restart", "key", name)
		}
	}
	g.settings = settings
	return nil
}

// leastBodies is the least value of --bodies, in MiB: one token gets half of it, and the largest body has 8 MiB.
const leastBodies = 16

// check refuses limits that make no sense.
func (b bounds) check() error {
	for name, n := range map[string]int{
		"rate": b.rate, "waits": b.waits, "all-waits": b.allWaits, "queued": b.queued, "connections": b.connections,
	} {
		if n < 0 {
			return usage("--%s %d: write a number, or 0 for no limit", name, n)
		}
	}
	if b.bodies < leastBodies {
		return usage("--bodies %d: %d MiB at least, else a token could not send its largest request", b.bodies,
			leastBodies)
	}
	return nil
}

// fromFile reports whether the file decides about a flag: neither the command line nor the environment does.
func (g *guarding) fromFile(name string) bool {
	return !slices.Contains(g.given, name) && os.Getenv(variable(name)) == ""
}

// changedKeys returns the keys whose values differ, in order.
func changedKeys(a, b map[string][]string) []string {
	var out []string
	for _, m := range []map[string][]string{a, b} {
		for key := range m {
			if !slices.Equal(a[key], b[key]) && !slices.Contains(out, key) {
				out = append(out, key)
			}
		}
	}
	slices.Sort(out)
	return out
}

// tellSystemd reports the state of this process to systemd, if systemd has started it and asks for that.
func tellSystemd(state string) error {
	address := os.Getenv("NOTIFY_SOCKET")
	if address == "" || !filepath.IsAbs(address) && address[0] != '@' {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte(state))
	return errors.Join(err, conn.Close())
}

// signing is the issuer at which the callers of a server sign in.
type signing struct {
	config     issuer.Config
	secretFile string
	lasts      string

	issuer *issuer.Issuer // nil if there is none, and all callers have tokens of this server
	keep   time.Duration  // how long a browser stays signed in
}

// oidcIssuerFlag is the flag without which the others of its kind have no effect.
const oidcIssuerFlag = "oidc-issuer"

// add adds the flags.
func (s *signing) add(flags *pflag.FlagSet) {
	c := &s.config
	flags.StringVar(&c.URL, oidcIssuerFlag, "", "issuer of OpenID Connect at which people sign in, and whose tokens "+
		"count, such as https://login.example.com")
	flags.StringVar(&c.ClientID, "oidc-client-id", "", "name under which the issuer knows this server")
	flags.StringVar(&s.secretFile, "oidc-client-secret-file", "",
		"file with the secret of the client (default: a public client, which PKCE protects)")
	flags.StringVar(&c.Audience, "oidc-audience", "",
		"for whom tokens are that callers show (default: --oidc-client-id)")
	flags.StringSliceVar(&c.Scopes, "oidc-scopes", []string{"profile", "email"},
		"what the issuer is asked for beside openid")
	flags.StringVar(&c.RolesClaim, "oidc-roles-claim", "groups",
		"claim that decides the role: a text, a list, or the keys of an object; dots lead into others")
	flags.StringArrayVar(&c.Roles, "oidc-role", nil,
		"role of a value of the claim, as VALUE=ROLE or VALUE=ROLE@NAMESPACE; the first that fits counts; repeatable")
	flags.StringVar(&c.NameClaim, "oidc-name-claim", "",
		"claim that is somebody's name in histories (default: email if it is verified, or sub)")
	amountVar(flags, &s.lasts, "session-for", "12h", "how long a browser stays signed in")
	flags.StringVar(&c.Public, "public-url", "",
		"address at which browsers reach this server, such as https://pawl.example.com (default: nobody signs in)")
}

// prepare finds the issuer, if one is named.
func (s *signing) prepare(ctx context.Context, g *guarding) error {
	if s.config.URL == "" {
		for _, name := range []string{"oidc-client-id", "oidc-client-secret-file", "oidc-audience", "oidc-role"} {
			if f := g.cmd.Flags().Lookup(name); f.Changed {
				return usage("--%s is given, and --%s is missing: it is the issuer's address", name, oidcIssuerFlag)
			}
		}
		return nil
	}
	var err error
	if s.keep, err = parseDuration(s.lasts); err != nil || s.keep <= 0 {
		return usage("--session-for %q: write a time as 12h", s.lasts)
	}
	if s.secretFile != "" {
		text, err := os.ReadFile(s.secretFile)
		if err != nil {
			return usage("--oidc-client-secret-file: %v", err)
		}
		if s.config.Secret = strings.TrimSpace(string(text)); s.config.Secret == "" {
			return usage("--oidc-client-secret-file: %s is empty", s.secretFile)
		}
	}
	s.config.Log, s.config.Now = g.log, clockNow
	if s.issuer, err = issuer.New(ctx, s.config); err != nil {
		return asUsage(err)
	}
	g.log.Info("an issuer is asked about callers", "issuer", s.config.URL, "sign-in", s.issuer.SignsIn())
	return nil
}
