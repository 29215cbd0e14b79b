package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writeCertificate writes a certificate that counts from a time to another one, and its key.
func writeCertificate(t *testing.T, dir string, serial int64, from, until time.Time) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: from, NotAfter: until, DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: text},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Unix(1_000_000_000+serial, 0) // the files of one test are written within a tick of the clock
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// TestCertificateIsReadAgain checks that a certificate is read again when its files change. One that expired, or does
// not fit its key, is refused, and the old one stays.
func TestCertificateIsReadAgain(t *testing.T) {
	t.Parallel()
	dir, at := t.TempDir(), clockNow()
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, nil))
	clock := func() time.Time { return at }
	cert, key := writeCertificate(t, dir, 1, at.Add(-2*time.Hour), at.Add(-time.Hour))
	if _, err := readCertificate(cert, key, log, clock); err == nil || !strings.Contains(err.Error(), "expired at") {
		t.Errorf("an expired certificate: %v", err)
	}
	writeCertificate(t, dir, 2, at.Add(time.Hour), at.Add(2*time.Hour))
	if _, err := readCertificate(cert, key, log, clock); err == nil || !strings.Contains(err.Error(), "counts from") {
		t.Errorf("a certificate of the future: %v", err)
	}
	writeCertificate(t, dir, 3, at.Add(-time.Hour), at.Add(time.Hour))
	c, err := readCertificate(cert, key, log, clock)
	if err != nil {
		t.Fatal(err)
	}
	serial := func() int64 {
		t.Helper()
		pair, err := c.current(nil)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return leaf.SerialNumber.Int64()
	}
	writeCertificate(t, dir, 4, at.Add(-time.Hour), at.Add(time.Hour))
	if n := serial(); n != 3 {
		t.Errorf("it was read again at once: %d", n)
	}
	at = at.Add(lookEvery)
	if n := serial(); n != 4 {
		t.Errorf("it was not read again: %d", n)
	}
	writeCertificate(t, dir, 5, at.Add(-2*time.Hour), at.Add(-time.Hour))
	if err := os.WriteFile(key, []byte("half a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	at = at.Add(lookEvery)
	if n := serial(); n != 4 || !strings.Contains(logged.String(), "the old one stays") {
		t.Errorf("a broken one is used: %d, %s", n, &logged)
	}
	if _, err := readCertificate(cert, filepath.Join(dir, "none"), log, clock); err == nil {
		t.Error("without a key")
	}
}
