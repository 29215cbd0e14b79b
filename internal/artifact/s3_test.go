//go:build unix

package artifact_test

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/artifact"
	"github.com/pawl-dev/pawl/internal/artifact/s3"
	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pawlbin"
)

// serve starts a server that speaks as S3 does, with the bucket shop, and returns the address of a prefix in it.
func serve(t *testing.T) string {
	t.Helper()
	bin := pawlbin.BuildIn(t, "tools/s3server", "github.com/versity/versitygw/cmd/versitygw")
	server := filepath.Join(bin, "versitygw")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	folder, sidecar := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "shop"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(server, "--access", "key", "--secret", "secretsecret", "--port", at, "--quiet",
		"posix", "--sidecar", sidecar, folder)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secretsecret")
	for from := time.Now(); ; {
		c, err := net.Dial("tcp", at)
		if err == nil {
			_ = c.Close()
			break
		}
		if time.Since(from) > time.Minute {
			t.Fatal(err)
		}
	}
	return "s3://shop/pawl?path-style=true&region=us-east-1&endpoint=http://" + at
}

// TestS3 checks a bucket of a server that speaks as S3 does: what is kept is taken, listed and removed as in a folder.
func TestS3(t *testing.T) {
	nightly.Only(t, "it builds a server of S3")
	address := serve(t)
	bucket, err := s3.Open(t.Context(), address, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.Get(t.Context(), "content/ab/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
	artifact.Sweep(t, bucket)
	large := strings.Repeat("0123456789abcdef", 1<<20) // several parts
	if err := bucket.Put(t.Context(), "content/large", strings.NewReader(large), int64(len(large))); err != nil {
		t.Fatal(err)
	}
	r, err := bucket.Get(t.Context(), "content/large")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); string(text) != large || err != nil {
		t.Errorf("%d of %d bytes, %v", len(text), len(large), err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	other, err := s3.Open(t.Context(), address, "tenant")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Get(t.Context(), "content/large"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another namespace: %v", err)
	}
	store := artifact.New(bucket, artifact.Limits{})
	if err := errors.Join(store.Claim(t.Context(), "one"), store.Claim(t.Context(), "one")); err != nil {
		t.Error(err)
	}
	if err := store.Claim(t.Context(), "two"); err == nil {
		t.Error("another database has the same prefix")
	}
}

// TestAddresses checks that an address which cannot be right is refused before anything is asked.
func TestAddresses(t *testing.T) {
	for _, address := range []string{
		"s3:bucket", "s3://bucket", "s3://bucket/", "s3://bucket/p?endpiont=x", "s3://bucket/p?endpoint=host:1",
	} {
		if _, err := s3.Open(t.Context(), address, ""); err == nil {
			t.Errorf("%s is taken", address)
		}
	}
}
