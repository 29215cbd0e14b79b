// Package values has clocks that are given on, helpers that ask them, and writes to what all runs share.
package values

import (
	"context"
	"fmt"
	"math/rand"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
)

var (
	counter int
	calls   atomic.Int64
	plain   int64
)

type service struct{ now func() time.Time }

func helper() time.Time { return further().Add(1) }

func further() time.Time { return time.Now() }

func seeded() *rand.Rand { return rand.New(rand.NewSource(1)) }

func later() func() time.Time { return func() time.Time { return time.Now() } }

func logged() time.Time {
	return time.Now() //pawlvet:ignore it goes into the log alone
}

const change pawl.Update[int, int] = "change"

func body(ctx pawl.Context, in []int) (int, error) {
	s := service{now: time.Now} // want `time.Now, given on as a value in a workflow's body`
	_, _ = s, helper()          // want `values.helper calls time.Now, which in a workflow's body`
	_, _, _ = seeded(), later(), logged()
	counter++                  // want `a body writes counter, a variable of the package`
	calls.Add(1)               // want `a body writes calls, a variable of the package`
	atomic.AddInt64(&plain, 1) // want `a body writes plain, a variable of the package`
	_ = calls.Load()
	_ = pawl.Do(ctx, fmt.Sprintf("%p", in), func(context.Context) error { // want `%p writes another address`
		counter++
		_ = service{now: time.Now}
		return nil
	})
	n := 0
	err := change.Handle(ctx, func(i int) error {
		n++ // want `the validator of an update writes n`
		m := i
		m++
		return nil
	}, func(pawl.Context, int) (int, error) { n++; return n, nil })
	return n, err
}
