package parallel

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/pawl-dev/pawl"
)

type counter struct {
	sync.Mutex
	n int
}

func body(ctx pawl.Context, c *counter) (int, error) {
	results := make(chan int)
	go func() { // want `a go statement in a workflow's body starts a goroutine .*: use pawl.Go or pawl.Map`
		results <- 1
	}()
	first := <-results // want `a channel receive in a workflow's body .*: wait for futures`
	results <- first   // want `a channel send in`
	select {           // want `a select in a workflow's body takes by chance .*: use pawl.Select`
	case n := <-results:
		<-results // want `a channel receive in`
		first = n
	case <-ctx.Done():
	}
	for range results { // want `a loop over a channel in`
	}

	var wg sync.WaitGroup
	wg.Go(func() { results <- 2 }) // want `sync.WaitGroup.Go in a workflow's body starts a goroutine`
	wg.Wait()                      // want `sync.WaitGroup.Wait in a workflow's body waits for goroutines .*: begin the work with pawl.Go`
	g, _ := errgroup.WithContext(ctx)
	g.Go(func() error { results <- 3; return nil }) // want `errgroup.Group.Go in`
	_ = g.Wait()                                    // want `errgroup.Group.Wait in`
	c.Lock()                                        // want `sync.Mutex.Lock in a workflow's body lets chance decide .*: return values from the branches`
	defer c.Unlock()
	return pawl.Step(ctx, "all", func(context.Context) (int, error) {
		go func() { results <- 1 }()
		select {
		case n := <-results:
			return n, nil
		default:
			wg.Wait()
			return 0, g.Wait()
		}
	})
}
