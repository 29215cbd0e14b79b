package outbox_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/internal/pgtest"
)

// TestMain lets all tests share a cluster, and looks for goroutines that they left behind.
func TestMain(m *testing.M) {
	stop := pgtest.Share()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}))
}
