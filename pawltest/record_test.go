package pawltest_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// recorder is a test that may fail: it keeps what the test would say.
type recorder struct {
	testing.TB
	said []string
}

func (r *recorder) Helper()           {}
func (r *recorder) Error(args ...any) { r.said = append(r.said, fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// record returns how a test fails; "": it does not.
func record(t *testing.T, test func(t testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(r)
	}()
	<-done
	return strings.Join(r.said, "\n")
}
