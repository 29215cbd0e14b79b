package body

import (
	"testing"
	"testing/synctest"

	"github.com/pawl-dev/pawl/internal/core"
)

// TestOwn checks that a goroutine is known also after its stack was moved, and others are told from it.
func TestOwn(t *testing.T) {
	p, own, other := &process{}, make(chan bool), make(chan bool)
	defer p.close()
	made := make(chan Goroutine, 1)
	g := p.Go(core.RunID{}, func() {
		g := <-made
		go func() { other <- g.Own() }()
		moved(10_000, func() { own <- g.Own() })
	})
	made <- g
	if !<-own {
		t.Error("the goroutine is not known")
	}
	if <-other || g.Own() {
		t.Error("another goroutine is taken for it")
	}
}

// TestOwnAfterTheEnd checks that a goroutine that has gone on to another branch is not taken for that of the first one.
func TestOwnAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, first, second := &process{}, false, false
		defer p.close()
		g := p.Go(core.RunID{}, func() {})
		synctest.Wait()
		made := make(chan Goroutine, 1)
		next := p.Go(core.RunID{}, func() { first, second = g.Own(), (<-made).Own() })
		made <- next
		synctest.Wait()
		if first || !second || len(p.idle) != 1 {
			t.Errorf("it is the first branch's %t, the second's %t; %d goroutines are idle", first, second, len(p.idle))
		}
	})
}

// moved calls a function far down the stack.
func moved(depth int, f func()) {
	if depth == 0 {
		f()
		return
	}
	moved(depth-1, f)
}

// TestOwnFindsEachCall checks that each call is found of a goroutine that a branch has begun itself, and each of
// another branch's, also where the branch itself has called often.
func TestOwnFindsEachCall(t *testing.T) {
	p, made := &process{}, make(chan Goroutine, 1)
	defer p.close()
	const calls = 10 * looksAtOneOf
	notOwn := func(g Goroutine) (n int) {
		for range calls {
			if !g.Own() {
				n++
			}
		}
		return n
	}
	begun, branch, next := make(chan int), make(chan int), make(chan struct{})
	made <- p.Go(core.RunID{}, func() {
		g := <-made
		if n := notOwn(g); n > 0 {
			t.Errorf("the goroutine is not known at %d of %d calls", n, calls)
		}
		go func() { begun <- notOwn(g) }()
		<-next
		p.Go(core.RunID{}, func() { branch <- notOwn(g) })
		<-next
	})
	if n := <-begun; n != calls {
		t.Errorf("%d of %d calls of a goroutine that is no branch's are found", n, calls)
	}
	next <- struct{}{}
	if n := <-branch; n != calls {
		t.Errorf("%d of %d calls of another branch's goroutine are found", n, calls)
	}
	next <- struct{}{}
}

// TestStackMovesToAnother checks that a goroutine which has got the memory of a stack that was moved is found before
// long, and is not taken for the other one again.
func TestStackMovesToAnother(t *testing.T) {
	c, asked := &caller{number: goroutineID()}, make(chan int)
	for range 2 {
		if !c.calls(0x1000) {
			t.Fatal("the goroutine is not known")
		}
	}
	go func() {
		n := 0
		for c.calls(0x1000) {
			n++
		}
		if c.calls(0x1000) {
			t.Error("it is taken for the other one again")
		}
		asked <- n
	}()
	if n := <-asked; n >= looksAtOneOf {
		t.Errorf("it is found after %d calls", n)
	}
}

// BenchmarkOwn measures what it costs to ask which goroutine calls, and to look each time.
func BenchmarkOwn(b *testing.B) {
	p := &process{}
	defer p.close()
	measure := func(b *testing.B, ask func(g Goroutine)) {
		made, done := make(chan Goroutine, 1), make(chan struct{})
		made <- p.Go(core.RunID{}, func() {
			defer close(done)
			g := <-made
			moved(15, func() {
				for b.Loop() {
					ask(g)
				}
			})
		})
		<-done
	}
	b.Run("own", func(b *testing.B) { measure(b, func(g Goroutine) { _ = g.Own() }) })
	b.Run("number", func(b *testing.B) { measure(b, func(Goroutine) { _ = goroutineID() }) })
}
