package body

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
)

// TestOwn: a goroutine is known also after its stack was moved, and others are told from it.
func TestOwn(t *testing.T) {
	p, own, other := &process{}, make(chan bool), make(chan bool)
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

// moved calls a function far down the stack.
func moved(depth int, f func()) {
	if depth == 0 {
		f()
		return
	}
	moved(depth-1, f)
}

// BenchmarkOwn measures what it costs to look which goroutine calls: as it is done, and by the goroutine's number.
func BenchmarkOwn(b *testing.B) {
	p := &process{}
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
