package body

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// crowd are bodies that stay in the user's code until they are told to return, and an engine that answers at once.
type crowd struct {
	*testing.T
	host  *Host
	mu    sync.Mutex
	began []byte      // the runs whose bodies were called
	lost  atomic.Bool // the engine loses what it is asked for
	leave map[byte]chan bool
}

func newCrowd(t *testing.T, turns, runs int) *crowd {
	c := &crowd{T: t, leave: map[byte]chan bool{}}
	for i := range runs {
		c.leave[byte(i+1)] = make(chan bool)
	}
	c.host = NewHost(t.Context(), Config{
		Turns: turns,
		Workflow: func(string) *Function {
			return &Function{Body: func(t *Thread) {
				run := t.Run()
				c.mu.Lock()
				c.began = append(c.began, run[0])
				c.mu.Unlock()
				if returns := <-c.leave[run[0]]; !returns {
					r, err := t.Ask("nap", core.Schedule{Spec: &core.StepSpec{}}, nil)
					if err == nil {
						_, _ = t.Get(r)
					}
				}
				t.Return(nil, Outcome{}, core.Close{Phase: core.RunSucceeded})
			}, TaskLimit: time.Hour}
		},
	})
	c.host.Attach(c)
	return c
}

func (c *crowd) Do(_ core.RunID, _ *engine.Body, _ []core.Input, done func(error)) {
	if done != nil {
		go done(nil)
	}
}

func (c *crowd) Consult(run core.RunID) {
	if !c.lost.Load() {
		c.news(run[0])
	}
}

func (*crowd) Begin(core.RunID, core.StepID)              {}
func (*crowd) Rematch()                                   {}
func (*crowd) Report(core.RunID, core.Input)              {}
func (*crowd) Confirm(core.RunID, core.Input, func(bool)) {}

// news brings the news of a run.
func (c *crowd) news(run byte) (decides bool) {
	return c.host.Consult(engine.News{Run: core.RunID{run}, Whole: true, Head: &engine.Head{}})
}

// goesOn lets a body return, so that its run closes, or wait for a step that is none of its own.
func (c *crowd) goesOn(run byte, returns bool) {
	c.leave[run] <- returns
	if synctest.Wait(); returns {
		c.host.Forget(core.RunID{run})
	}
}

// want checks which bodies were called so far.
func (c *crowd) want(began ...byte) {
	c.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(c.began) // those that are called at the same moment begin in any order
	slices.Sort(began)
	if !slices.Equal(c.began, began) {
		c.Errorf("these bodies were called: %v, want %v", c.began, began)
	}
}

func TestTurns(t *testing.T) {
	crowded := func(name string, test func(c *crowd)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, 2, 9)
				defer c.host.Close()
				defer func() {
					for _, leave := range c.leave {
						close(leave)
					}
				}()
				for run := range byte(5) {
					if decides := c.news(run + 1); decides != (run < 2) {
						t.Errorf("run %d decides: %t", run+1, decides)
					}
					synctest.Wait()
				}
				c.want(1, 2)
				test(c)
			})
		})
	}
	crowded("the next is called when one has returned", func(c *crowd) {
		c.goesOn(2, true)
		c.want(1, 2, 3)
		c.goesOn(1, true)
		c.want(1, 2, 3, 4)
	})
	crowded("or waits for something else", func(c *crowd) {
		c.goesOn(1, false)
		c.want(1, 2, 3)
	})
	crowded("or when nothing has happened to it for a while", func(c *crowd) {
		<-time.After(3 * turnTime)
		c.want(1, 2, 3, 4)
		<-time.After(3 * turnTime)
		c.want(1, 2, 3, 4, 5)
		c.news(6) // nobody else waits, but two are at work
		c.want(1, 2, 3, 4, 5, 6)
	})
	crowded("not before", func(c *crowd) {
		for range 10 {
			<-time.After(turnTime * 9 / 10)
			c.news(1)
			c.news(2)
		}
		c.want(1, 2)
	})
	crowded("who waits is not called once its run has closed", func(c *crowd) {
		c.host.Forget(core.RunID{3})
		c.goesOn(1, true)
		c.want(1, 2, 4)
	})
	crowded("or is paused, until it is told to go on", func(c *crowd) {
		c.host.Consult(engine.News{Run: core.RunID{3}, Held: true})
		c.goesOn(1, true)
		c.want(1, 2, 4)
		c.news(3)
		c.goesOn(2, true)
		c.want(1, 2, 4, 5)
		c.goesOn(4, true)
		c.want(1, 2, 4, 5, 3)
	})
	crowded("nobody overtakes", func(c *crowd) {
		c.lost.Store(true) // the run is lost for a moment
		c.goesOn(1, true)
		if c.news(6) {
			t.Error("run 6 has overtaken")
		}
		c.lost.Store(false)
		c.news(3)
		c.want(1, 2, 3)
	})
	crowded("the turn of a run whose news are lost goes to the next", func(c *crowd) {
		c.lost.Store(true)
		c.goesOn(1, true)
		c.lost.Store(false)
		<-time.After(3 * turnTime)
		c.want(1, 2, 4, 5)
	})
	crowded("what was forgotten is asked again", func(c *crowd) {
		c.host.Reset(1, func(run core.RunID) bool { return run[0] > 3 })
		c.goesOn(1, true)
		c.goesOn(2, true)
		c.want(1, 2, 3)
		c.news(5)
		c.want(1, 2, 3, 5)
	})
	crowded("an attempt that looks for its function does not wait", func(c *crowd) {
		c.host.Search(core.Task{Token: core.Token{Run: core.RunID{5}}, StepName: "s"}, func(Answer, Func) {})
		c.want(1, 2, 5)
		<-time.After(5 * turnTime) // the others have their turns
		c.want(1, 2, 3, 4, 5)
		if n := len(c.host.turns.called); n > 0 {
			t.Errorf("%d news are awaited for ever", n)
		}
	})
}
