package limit

import (
	"bytes"
	"cmp"
	"sync/atomic"
)

// Client is a partition as the limiter sees it.
type Client struct {
	// Wake tells the partition that it may take something of a queue and a task type now. It is called from any
	// goroutine, without a lock.
	Wake func(queue, taskType string)

	called  atomic.Bool // there are turns
	noted   atomic.Bool // there are notices
	turns   []*Ticket   // tickets whose turn it is
	notices []*Ticket   // tickets that are held for another reason now
}

// Called reports whether there are turns; see Limiter.Turns.
func (c *Client) Called() bool { return c.called.Load() }

// Noted reports whether there are notices; see Limiter.Notices.
func (c *Client) Noted() bool { return c.noted.Load() }

// Compare orders tickets by age.
func (t *Ticket) Compare(o *Ticket) int {
	return cmp.Or(cmp.Compare(t.Order, o.Order), bytes.Compare(t.Token.Run[:], o.Token.Run[:]))
}

// Running reports whether the ticket has what it asked for. Only its partition may ask.
func (t *Ticket) Running() bool { return t.running }
