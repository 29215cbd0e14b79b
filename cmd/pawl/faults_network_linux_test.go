package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// insideNetwork is set for the process that has a network of its own.
const insideNetwork = "PAWL_TEST_INSIDE_NETWORK"

// network connects three nodes, each in a network namespace with a cable of its own, to a bridge. The test and the
// database are at the bridge. It is in a namespace, too, so nothing of it can be seen from elsewhere.
type network struct {
	*testing.T
	nodes [3]string // their namespaces
}

const networkOfNodes, atBridge = "10.99.0.0/24", "10.99.0.1"

// addressOf returns the address of a node.
func addressOf(node int) string { return fmt.Sprint("10.99.0.1", node) }

// TestMixedFaultsOfANetwork runs TestMixedFaults with nodes in network namespaces: cables are pulled, pairs of nodes
// do not reach each other while both reach a third one and the database, and packets get lost in one direction. No
// process is told about any of these faults.
func TestMixedFaultsOfANetwork(t *testing.T) {
	nightly.Only(t, "nodes of a real cluster wait for leases")
	t.Parallel()
	if os.Getenv(insideNetwork) == "" {
		inNamespace(t)
		return
	}
	w := &network{T: t}
	bridge := exec.CommandContext(t.Context(), "ip", "link", "add", "cluster", "type", "bridge")
	if out, err := bridge.CombinedOutput(); err != nil {
		t.Skipf("%s: %v: %s", noNetwork, err, out)
	}
	w.ip("link set lo up")
	w.ip("address add " + atBridge + "/24 dev cluster")
	w.ip("link set cluster up")
	for i := range w.nodes {
		holder := exec.CommandContext(t.Context(), "sleep", "infinity") // it keeps the namespace
		holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		if err := holder.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = holder.Wait() }) // the context has killed it
		w.nodes[i] = fmt.Sprintf("--net=/proc/%d/ns/net", holder.Process.Pid)
		w.ip(fmt.Sprintf("link add %s type veth peer name eth0 netns %d", cable(i), holder.Process.Pid))
		w.ip("link set " + cable(i) + " master cluster up")
		w.inside(i, "link set lo up")
		w.inside(i, "address add "+addressOf(i)+"/24 dev eth0")
		w.inside(i, "link set eth0 up")
	}
	mixedFaults(t, w, networkFaults)
}

const noNetwork = "only root can make networks, with ip, bridge and nsenter: nodes in namespaces were not tried"

// inNamespace runs the test once more, in a process that has a network of its own.
func inNamespace(t *testing.T) {
	t.Helper()
	for _, name := range []string{"ip", "bridge", "nsenter"} {
		if _, err := exec.LookPath(name); os.Geteuid() != 0 || err != nil {
			t.Skip(noNetwork)
		}
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=0")
	cmd.Env = append(os.Environ(), insideNetwork+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	switch {
	case errors.Is(err, syscall.EPERM), err == nil && strings.Contains(string(out), "--- SKIP: "):
		t.Skip(noNetwork)
	case err != nil:
		t.Error(err)
	}
}

func (w *network) ip(args string) { w.Helper(); w.run("ip", strings.Fields(args)...) }

// inside runs ip in the namespace of a node.
func (w *network) inside(node int, args string) {
	w.Helper()
	w.run("nsenter", append([]string{w.nodes[node], "ip"}, strings.Fields(args)...)...)
}

func (w *network) run(name string, args ...string) {
	w.Helper()
	if out, err := exec.CommandContext(w.Context(), name, args...).CombinedOutput(); err != nil {
		w.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

// cable returns the name of the end of a node's cable at the bridge.
func cable(node int) string { return fmt.Sprint("node", node) }

// settings returns the settings of a database server.
func (w *network) settings() []string {
	if w == nil {
		return nil
	}
	return []string{"-c", "listen_addresses=*"}
}

func (w *network) admit(s *pgtest.Server) {
	if w != nil {
		s.Admit(networkOfNodes)
	}
}

// joinFrom starts a node in its namespace.
func (b *faultsBed) joinFrom(number int) *faultyNode {
	b.Helper()
	var hosts []string
	for _, server := range []*pgtest.Server{b.primary, b.standby} {
		u, err := url.Parse(server.DSN())
		if err != nil {
			b.Fatal(err)
		}
		hosts = append(hosts, net.JoinHostPort(atBridge, u.Port()))
	}
	cmd := b.command()
	cmd.Args = append([]string{"nsenter", b.network.nodes[number]}, cmd.Path)
	var err error
	if cmd.Path, err = exec.LookPath("nsenter"); err != nil {
		b.Fatal(err)
	}
	n, direct, at := &faultyNode{}, b.database, net.JoinHostPort(addressOf(number), "7295")
	b.database = b.databaseAt(hosts...)
	client := pgtest.NewProxy(b.T, "tcp://"+at).Address() // a token is sent without TLS on one's own machine only
	n.p, n.c = b.nodeBy(cmd, client, "--listen", at, "--insecure", "--cluster-listen",
		net.JoinHostPort(addressOf(number), "7296"))
	b.database = direct
	return n
}

// networkFaults are those of a network.
var networkFaults = map[string]fault{
	"a cable is pulled": func(b *faultsBed, hit int, healthy *faultyNode) []string {
		return b.takenOver(func() { b.network.ip("link set " + cable(hit) + " down") },
			func() { b.network.ip("link set " + cable(hit) + " up") }, healthy)
	},
	"the database's answers get lost": func(b *faultsBed, hit int, healthy *faultyNode) []string {
		return b.takenOver(func() { b.network.ip("route add blackhole " + addressOf(hit)) },
			func() { b.network.ip("route del blackhole " + addressOf(hit)) }, healthy)
	},
	"two nodes are apart": func(b *faultsBed, hit int, _ *faultyNode) []string {
		return b.isolated(hit, (hit+1)%len(b.nodes))
	},
	"all nodes are apart": func(b *faultsBed, _ int, _ *faultyNode) []string { return b.isolated(0, 1, 2) },
	"a node's answers get lost": func(b *faultsBed, hit int, _ *faultyNode) []string {
		each := func(verb string) func() {
			return func() {
				for node := range b.nodes {
					if node != hit {
						b.network.inside(hit, "route "+verb+" blackhole "+addressOf(node))
					}
				}
			}
		}
		return b.apart(each("add"), each("del"), b.nodes[hit])
	},
}

// isolated keeps nodes from reaching each other. All of them reach the database.
func (b *faultsBed) isolated(which ...int) []string {
	b.Helper()
	var nodes []*faultyNode
	for _, node := range which {
		nodes = append(nodes, b.nodes[node])
	}
	each := func(value string) func() {
		return func() {
			for _, node := range which {
				b.network.run("bridge", "link", "set", "dev", cable(node), "isolated", value)
			}
		}
	}
	return b.apart(each("on"), each("off"), nodes...)
}
