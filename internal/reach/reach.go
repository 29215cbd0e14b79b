// Package reach decides to which addresses a server connects for others: for webhooks, whose addresses anybody with a
// token may register, and for the requests of flows, whose addresses may come from the input of a run.
package reach

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// connectWithin is how long a connection may take to be made.
const connectWithin = 10 * time.Second

// special are addresses that do not belong to public servers, beside those that package netip knows.
var special = prefixes(
	"0.0.0.0/8",
	"100.64.0.0/10", // shared by the customers of a provider
	"192.0.0.0/24",
	"192.0.2.0/24",   // documentation
	"192.88.99.0/24", // relays of an older form of version 6
	"198.18.0.0/15",
	"198.51.100.0/24",
	"203.0.113.0/24",
	"240.0.0.0/4", // and 255.255.255.255
	"100::/64",
	"64:ff9b::/96", // these three hold an address of version 4
	"64:ff9b:1::/48",
	"2002::/16",
	"2001::/32",
	"2001:db8::/32",
	"3fff::/20", // documentation
	"5f00::/16", // segment routing
	"fec0::/10",
	"::/96",
)

// metadata are the addresses at which machines of a provider ask who they are, and get keys of their own. Most are
// link-local, and stand here with all addresses that are.
var metadata = prefixes(
	"169.254.0.0/16", "fe80::/10",
	"fd00:ec2::254/128",                   // Amazon, in version 6
	"100.100.100.200/32",                  // Alibaba
	"168.63.129.16/32",                    // Azure
	"192.0.0.192/32",                      // Oracle
	"64:ff9b::a9fe:0/112", "::a9fe:0/112", // 169.254.0.0/16 within version 6
	"64:ff9b:1::a9fe:0/112", "2002:a9fe::/32", // and in tunnels
)

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// Policy decides about addresses. Use Public or Inside.
type Policy struct {
	setting string // the setting that allows an address, for errors
	kind    string // the words for a refused address
	refuses func(netip.Addr) bool
	allowed []netip.Prefix
	denied  []netip.Prefix
}

// Public returns the policy that refuses every address which is not on the public network, unless it is allowed by the
// setting.
func Public(setting string, allowed []netip.Prefix) *Policy {
	return &Policy{
		setting: setting, kind: "a private, loopback or link-local address", allowed: allowed,
		refuses: func(a netip.Addr) bool {
			// Loopback, link-local, multicast and unspecified addresses are not global.
			return !a.IsGlobalUnicast() || a.IsPrivate() || within(special, a)
		},
	}
}

// Inside returns the policy that refuses link-local addresses and those where machines get their keys, and those that
// are denied, unless they are allowed by the setting. Private networks and this machine can be reached.
func Inside(setting string, allowed, denied []netip.Prefix) *Policy {
	return &Policy{
		setting: setting, kind: "a link-local address or one that hands out keys of this machine", allowed: allowed,
		denied:  denied,
		refuses: func(a netip.Addr) bool { return within(metadata, a) },
	}
}

func within(all []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(a) })
}

// RefusedError refuses an address.
type RefusedError struct {
	Addr netip.Addr
	why  string
}

// Error tells why the address is refused, and which setting allows it.
func (e *RefusedError) Error() string { return e.Addr.String() + " " + e.why }

// Check refuses an address, unless it is allowed. A nil policy allows all.
func (p *Policy) Check(addr netip.Addr) error {
	addr = addr.Unmap().WithZone("")
	if p == nil || within(p.allowed, addr) {
		return nil
	}
	why := "is " + p.kind
	switch {
	case within(p.denied, addr):
		why = "is denied by the server"
	case !p.refuses(addr):
		return nil
	}
	one := netip.PrefixFrom(addr, addr.BitLen())
	return &RefusedError{addr, fmt.Sprintf("%s; --%s %s allows it", why, p.setting, one)}
}

// CheckURL refuses a URL that names an address itself. This is for requests through a proxy, which resolves names: a
// connection is checked when it is made, and that is made to the proxy.
func (p *Policy) CheckURL(u *url.URL) error {
	host := strings.Trim(u.Hostname(), "[]")
	if addr, err := netip.ParseAddr(host); err == nil {
		return p.Check(addr)
	}
	if strings.EqualFold(strings.TrimSuffix(host, "."), "metadata.google.internal") {
		return p.Check(netip.MustParseAddr("169.254.169.254"))
	}
	return nil
}

// control checks the address that a connection is about to be made to. A name is resolved by then, so the owner of the
// name cannot give another address to the check than to the connection.
func (p *Policy) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return p.Check(to.Addr())
}

// Dialer returns a dialer that connects to allowed addresses alone.
func (p *Policy) Dialer() *net.Dialer { return &net.Dialer{Timeout: connectWithin, Control: p.control} }
