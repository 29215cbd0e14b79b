package webhook

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// refusedPrefixes are addresses that do not belong to public servers, beside those that package netip knows.
var refusedPrefixes = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"), // shared by the customers of a provider
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"),   // documentation
	netip.MustParsePrefix("192.88.99.0/24"), // relays of an older form of version 6
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"), // and 255.255.255.255
	netip.MustParsePrefix("100::/64"),
	netip.MustParsePrefix("64:ff9b::/96"), // these three hold an address of version 4
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("2001::/32"),
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("3fff::/20"), // documentation
	netip.MustParsePrefix("5f00::/16"), // segment routing
	netip.MustParsePrefix("fec0::/10"),
	netip.MustParsePrefix("::/96"),
}

// addressError refuses an address.
type addressError struct{ addr netip.Addr }

func (e *addressError) Error() string {
	return fmt.Sprintf("%s is a private, loopback or link-local address; --webhook-allow %s allows it", e.addr,
		netip.PrefixFrom(e.addr, e.addr.BitLen()))
}

// guard decides which addresses messages may be sent to.
type guard struct{ allowed []netip.Prefix }

// check refuses an address that is not on the public network, unless it is allowed.
func (g *guard) check(addr netip.Addr) error {
	addr = addr.Unmap().WithZone("")
	for _, p := range g.allowed {
		if p.Contains(addr) {
			return nil
		}
	}
	if !addr.IsGlobalUnicast() || addr.IsPrivate() { // loopback, link-local, multicast and unspecified are not global
		return &addressError{addr}
	}
	for _, p := range refusedPrefixes {
		if p.Contains(addr) {
			return &addressError{addr}
		}
	}
	return nil
}

// control checks each address that a connection is about to be made to. A name is resolved by then, so the owner of the
// name cannot give another address to the check than to the connection.
func (g *guard) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return g.check(to.Addr())
}

// The limits on requests to a receiver and on its answers.
const (
	connectWithin = 10 * time.Second
	mostHeader    = 64 << 10
	idleFor       = 30 * time.Second
	mostIdle      = 64
)

// transport returns how messages are sent. It uses no proxy: the check would see the proxy's address only.
func (g *guard) transport() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: connectWithin, Control: g.control}).DialContext,
		TLSHandshakeTimeout: connectWithin, MaxResponseHeaderBytes: mostHeader, ForceAttemptHTTP2: true,
		DisableCompression: true,
		MaxIdleConns:       mostIdle, MaxIdleConnsPerHost: inFlightEach, IdleConnTimeout: idleFor,
	}
}
