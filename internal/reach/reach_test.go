package reach

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"testing"
)

// TestPublic checks that only addresses of the public network are reached, unless others are allowed.
func TestPublic(t *testing.T) {
	p := Public("webhook-allow", prefixes("10.1.0.0/16"))
	for text, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1": true, "10.1.2.3": true, "::ffff:10.1.2.3": true,
		"10.2.0.1": false, "127.0.0.1": false, "::1": false, "169.254.169.254": false, "192.168.1.1": false,
		"172.16.0.1": false, "fe80::1%eth0": false, "fd00::1": false, "0.0.0.0": false, "::": false,
		"::ffff:127.0.0.1": false, "64:ff9b::7f00:1": false, "2002:7f00:1::": false, "100.64.0.1": false,
		"224.0.0.1": false, "255.255.255.255": false, "::127.0.0.1": false, "192.88.99.1": false, "3fff::1": false,
		"5f00::1": false,
	} {
		if err := p.Check(netip.MustParseAddr(text)); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestInside checks that a flow's request reaches this machine and private networks, but no address that hands out
// keys, in whatever way it is written, unless it is allowed, and none that is denied.
func TestInside(t *testing.T) {
	p := Inside("http-allow", prefixes("10.9.0.7/32", "169.254.1.1/32"), prefixes("10.9.0.0/16"))
	for text, want := range map[string]bool{
		"8.8.8.8": true, "127.0.0.1": true, "::1": true, "10.1.2.3": true, "192.168.1.1": true, "fd00::1": true,
		"10.9.0.7": true, "169.254.1.1": true,
		"10.9.0.8": false, "169.254.169.254": false, "::ffff:169.254.169.254": false, "fe80::1%eth0": false,
		"fd00:ec2::254": false, "100.100.100.200": false, "168.63.129.16": false, "192.0.0.192": false,
		"64:ff9b::a9fe:a9fe": false, "2002:a9fe:a9fe::": false, "::169.254.169.254": false,
	} {
		if err := p.Check(netip.MustParseAddr(text)); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := (*Policy)(nil).Check(netip.MustParseAddr("169.254.169.254")); err != nil {
		t.Errorf("without a policy: %v", err)
	}
	want := "10.9.0.8 is denied by the server; --http-allow 10.9.0.8/32 allows it"
	if err := p.Check(netip.MustParseAddr("10.9.0.8")); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestCheckURL checks the addresses that a URL names itself, which a proxy would connect to.
func TestCheckURL(t *testing.T) {
	p := Inside("http-allow", nil, nil)
	for text, want := range map[string]bool{
		"http://169.254.169.254/latest": false, "http://[fe80::1%25eth0]:80/": false,
		"http://[::ffff:169.254.169.254]/": false, "http://Metadata.google.internal./x": false,
		"http://example.com/": true, "http://127.0.0.1:8080/": true,
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.CheckURL(u); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestDialer checks that an address is checked when the connection is made, after its name was resolved.
func TestDialer(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for denied, want := range map[string]bool{"127.0.0.0/8": false, "10.0.0.0/8": true} {
		d := Inside("http-allow", nil, prefixes(denied, "::1/128")).Dialer()
		conn, err := d.DialContext(context.WithoutCancel(t.Context()), "tcp", net.JoinHostPort("localhost", port))
		if (err == nil) != want || err != nil && !errors.As(err, new(*RefusedError)) {
			t.Errorf("%s denied: %v", denied, err)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
}
