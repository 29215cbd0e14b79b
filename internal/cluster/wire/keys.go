// Package wire is how the nodes of a cluster talk: over HTTP/2, with certificates that each of them makes of the
// cluster's secret. Who does not have the secret can neither ask a node nor answer for one.
package wire

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"os"
	"time"
)

// shortestSecret is how long a secret has to be, in bytes. It is meant to be random: its fingerprint is in the
// database, and a short one could be found from that.
const shortestSecret = 32

// name is what all nodes are called in their certificates. Which node it is does not matter, but that it is one.
const name = "pawl-node"

// Keys are what a node makes of the cluster's secret.
type Keys struct {
	Fingerprint string // the fingerprint of the secret, for the table of nodes
	own         tls.Certificate
	trusted     *x509.CertPool
}

// ReadKeys makes keys of the secret in a file.
func ReadKeys(path string) (*Keys, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the cluster's secret: %w", err)
	}
	k, err := NewKeys(bytes.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("the cluster's secret in %s: %w", path, err)
	}
	return k, nil
}

// NewKeys makes keys of a secret. The same secret makes the same authority, so the nodes trust each other. Their
// certificates are valid forever, because the secret is, too. And so wrong clocks do no harm.
func NewKeys(secret []byte) (*Keys, error) {
	if len(secret) < shortestSecret {
		return nil, fmt.Errorf("it has %d bytes, and needs %d or more at random; openssl rand -hex 32 makes one",
			len(secret), shortestSecret)
	}
	seed, err := hkdf.Key(sha256.New, secret, nil, "pawl cluster authority 1", ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	print, err := hkdf.Key(sha256.New, secret, nil, "pawl cluster fingerprint 1", 16)
	if err != nil {
		return nil, err
	}
	authorityKey := ed25519.NewKeyFromSeed(seed)
	authority := template()
	authority.SerialNumber, authority.IsCA, authority.KeyUsage = big.NewInt(1), true, x509.KeyUsageCertSign
	signed, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return nil, err
	}
	root, err := x509.ParseCertificate(signed)
	if err != nil {
		return nil, err
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	leaf := template()
	leaf.DNSNames, leaf.KeyUsage = []string{name}, x509.KeyUsageDigitalSignature
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	if leaf.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, err
	}
	own, err := x509.CreateCertificate(rand.Reader, leaf, root, public, authorityKey)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(root)
	return &Keys{
		Fingerprint: hex.EncodeToString(print), trusted: trusted,
		own: tls.Certificate{Certificate: [][]byte{own}, PrivateKey: private},
	}, nil
}

func template() *x509.Certificate {
	return &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:              time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC),
		BasicConstraintsValid: true,
	}
}

// server returns the configuration with which a node listens to others. Nodes keep no sessions, so tickets for these
// help nobody.
func (k *Keys) server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{k.own}, ClientCAs: k.trusted,
		ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2"},
		SessionTicketsDisabled: true,
	}
}

// client returns the configuration with which a node asks others.
func (k *Keys) client() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{k.own}, RootCAs: k.trusted, ServerName: name,
		NextProtos: []string{"h2"},
	}
}

// foreign reports whether an error means that the other side has another secret.
func foreign(err error) bool {
	var unknown *tls.CertificateVerificationError
	var alert tls.AlertError
	return errors.As(err, &unknown) || errors.As(err, &alert)
}
