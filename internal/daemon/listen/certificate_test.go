package listen

import (
	"bytes"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/certtest"
)

// TestCertificateIsReadAgain checks that a certificate is read again when its files change. One that expired, or does
// not fit its key, is refused, and the old one stays.
func TestCertificateIsReadAgain(t *testing.T) {
	t.Parallel()
	dir, at := t.TempDir(), time.Now()
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, nil))
	clock := func() time.Time { return at }
	cert, key := certtest.Write(t, dir, 1, at.Add(-2*time.Hour), at.Add(-time.Hour))
	if _, err := ReadCertificate(cert, key, log, clock); err == nil || !strings.Contains(err.Error(), "expired at") {
		t.Errorf("an expired certificate: %v", err)
	}
	certtest.Write(t, dir, 2, at.Add(time.Hour), at.Add(2*time.Hour))
	if _, err := ReadCertificate(cert, key, log, clock); err == nil || !strings.Contains(err.Error(), "counts from") {
		t.Errorf("a certificate of the future: %v", err)
	}
	certtest.Write(t, dir, 3, at.Add(-time.Hour), at.Add(time.Hour))
	c, err := ReadCertificate(cert, key, log, clock)
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
	certtest.Write(t, dir, 4, at.Add(-time.Hour), at.Add(time.Hour))
	if n := serial(); n != 3 {
		t.Errorf("it was read again at once: %d", n)
	}
	at = at.Add(lookEvery)
	if n := serial(); n != 4 {
		t.Errorf("it was not read again: %d", n)
	}
	certtest.Write(t, dir, 5, at.Add(-2*time.Hour), at.Add(-time.Hour))
	if err := os.WriteFile(key, []byte("half a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	at = at.Add(lookEvery)
	if n := serial(); n != 4 || !strings.Contains(logged.String(), "the old one stays") {
		t.Errorf("a broken one is used: %d, %s", n, &logged)
	}
	if _, err := ReadCertificate(cert, filepath.Join(dir, "none"), log, clock); err == nil {
		t.Error("without a key")
	}
}
