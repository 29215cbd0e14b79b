// Command temporal runs Temporal's server on a SQLite file or on two PostgreSQL databases, until it is interrupted. It
// is a separate module, so that the server has the versions of libraries that it was released with.
package main

import (
	"flag"
	"fmt"
	"log"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	templog "go.temporal.io/server/common/log"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql"
	sqlite "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	sqliteschema "go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"
	"go.temporal.io/server/tools/sql"
)

// visibility is the suffix of the name of the second database, in which Temporal keeps its lists.
const visibility = "_visibility"

func main() {
	log.SetFlags(0)
	dir := flag.String("dir", "", "the folder of the SQLite file")
	postgres := flag.String("postgres", "", "in place of it, DSN of a superuser: databases temporal_peers and"+
		" temporal_peers_visibility are made")
	port := flag.Int("port", 0, "of the service for clients on the loopback; ten more follow it")
	flag.Parse()
	if err := run(*dir, *postgres, *port); err != nil {
		log.Fatal("temporal: ", err)
	}
}

func run(dir, postgres string, port int) error {
	errorsOnly := templog.NewZapLogger(templog.BuildZapLogger(templog.Config{Stdout: true, Level: "error"}))
	stores, err := onFile(filepath.Join(dir, "temporal.db"))
	if postgres != "" {
		stores, err = onServer(postgres)
	}
	if err != nil {
		return err
	}
	server, err := temporal.NewServer(temporal.WithConfig(configured(stores, port)),
		temporal.ForServices(temporal.DefaultServices), temporal.WithLogger(errorsOnly),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithDynamicConfigClient(limits()),
		temporal.InterruptOn(temporal.InterruptCh()))
	if err != nil {
		return err
	}
	return server.Start() // returns when it was interrupted
}

// limits raises limits, as for a server that only one program uses.
func limits() dynamicconfig.StaticClient {
	all := dynamicconfig.StaticClient{}
	for _, key := range []string{
		"frontend.namespaceRPS", "frontend.rps", "frontend.namespaceCount", "frontend.persistenceMaxQPS",
		"history.persistenceMaxQPS", "matching.persistenceMaxQPS", "history.rps", "matching.rps",
	} {
		all[dynamicconfig.MakeKey(key)] = 100_000
	}
	return all
}

// onFile makes a SQLite file, whose commits are synced.
func onFile(name string) (config.Persistence, error) {
	store := &config.SQL{
		PluginName: sqlite.PluginName, DatabaseName: name,
		ConnectAttributes: map[string]string{"mode": "rwc", "journal_mode": "wal", "synchronous": "2"},
	}
	if _, err := os.Stat(name); os.IsNotExist(err) {
		if err := sqliteschema.SetupSchema(store); err != nil {
			return config.Persistence{}, err
		}
	}
	return config.Persistence{
		DefaultStore: "one", VisibilityStore: "one", NumHistoryShards: 1,
		DataStores: map[string]config.DataStore{"one": {SQL: store}},
	}, nil
}

// onServer makes the databases on PostgreSQL that are not there.
func onServer(dsn string) (config.Persistence, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return config.Persistence{}, err
	}
	password, _ := u.User.Password()
	store := func(name string) config.DataStore {
		return config.DataStore{SQL: &config.SQL{
			PluginName: postgresql.PluginNamePGX, DatabaseName: name, ConnectAddr: u.Host, ConnectProtocol: "tcp",
			User: u.User.Username(), Password: password, MaxConns: 32, MaxIdleConns: 32,
		}}
	}
	const name = "temporal_peers"
	tool := func(args ...string) error {
		return sql.RunTool(append([]string{
			"temporal-sql-tool", "--quiet", "--plugin", postgresql.PluginNamePGX, "--ep", u.Hostname(), "--port",
			u.Port(), "--user", u.User.Username(), "--password", password,
		}, args...))
	}
	for folder, database := range map[string]string{"temporal": name, "visibility": name + visibility} {
		for _, args := range [][]string{
			{"create-database", "--defaultdb", "postgres"},
			{"setup-schema", "--version", "0.0"},
			{"update-schema", "--schema-name", "postgresql/v12/" + folder},
		} {
			if err := tool(append([]string{"--database", database}, args...)...); err != nil {
				return config.Persistence{}, fmt.Errorf("%s: %w", args[0], err)
			}
		}
	}
	return config.Persistence{
		DefaultStore: "one", VisibilityStore: "two", NumHistoryShards: 4,
		DataStores: map[string]config.DataStore{"one": store(name), "two": store(name + visibility)},
	}, nil
}

// configured returns the configuration of a lone server.
func configured(stores config.Persistence, port int) *config.Config {
	const loopback = "127.0.0.1"
	address := fmt.Sprintf("%s:%d", loopback, port)
	c := &config.Config{
		Persistence: stores,
		Global: config.Global{
			Membership: config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: loopback},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10, MasterClusterName: "active", CurrentClusterName: "active",
			ClusterInformation: map[string]cluster.ClusterInformation{
				"active": {Enabled: true, InitialFailoverVersion: 1, RPCAddress: address},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services:            map[string]config.Service{},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: "disabled"},
			Visibility: config.VisibilityArchival{State: "disabled"},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
		}},
		PublicClient: config.PublicClient{HostPort: address},
	}
	for i, name := range []string{"frontend", "history", "matching", "worker"} {
		rpc := config.RPC{GRPCPort: port + 2*i, MembershipPort: port + 2*i + 1, BindOnLocalHost: true}
		c.Services[name] = config.Service{RPC: rpc}
	}
	return c
}
