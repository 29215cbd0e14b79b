package core

import (
	"encoding/binary"
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// stubs are the specs of a reader that knows only their ordinal. They are shared and never changed.
var stubs = func() (s [256]StepSpec) {
	for i := range s {
		s[i].Def = int32(i)
	}
	return s
}()

func stub(def int32) *StepSpec {
	if def >= 0 && int(def) < len(stubs) {
		return &stubs[def]
	}
	return &StepSpec{Def: def}
}

// spec codes the ordinal of a definition's step, or -1 and the whole spec. Reading an ordinal gives a spec with nothing
// else.
func (c *coder) spec(p **StepSpec) {
	if !c.has(*p != nil) {
		return
	}
	def := int32(0)
	if !c.reading {
		def = (*p).Def
	}
	c.index(&def)
	if c.reading {
		*p = stub(def)
	}
	if def != -1 {
		return
	}
	s := *p
	outer := c.open()
	c.text(&s.Name)
	small(c, &s.Kind)
	c.flag(&s.Hook)
	c.text(&s.Queue)
	c.text(&s.Type)
	c.text(&s.Event)
	c.policy(&s.Policy)
	c.bytes(&s.Input)
	optional(c, &s.Priority)
	c.flag(&s.Spread)
	c.flag(&s.Detached)
	c.share(&s.Share)
	c.text(&s.Update)
	c.texts(&s.Any)
	c.close(outer)
}

func (c *coder) share(p **Share) {
	if !c.has(*p != nil) {
		return
	}
	if c.reading {
		*p = new(Share)
	}
	s := *p
	outer := c.open()
	c.text(&s.Queue)
	c.text(&s.Service)
	c.text(&s.Key)
	c.close(outer)
}

func (c *coder) runQueue(p *RunQueue) {
	if !c.has(*p != RunQueue{}) {
		return
	}
	outer := c.open()
	c.text(&p.Name)
	c.text(&p.Key)
	optional(c, &p.Priority)
	c.close(outer)
}

func (c *coder) held(p *Held) {
	small(c, &p.Reason)
	c.flag(&p.Service)
	c.text(&p.Name)
	c.text(&p.Key)
	c.time(&p.Until)
	optional(c, &p.Probes)
}

func (c *coder) limitAt(p *RunLimit) {
	if !c.has(*p != RunLimit{}) {
		return
	}
	outer := c.open()
	c.time(&p.At)
	optional(c, &p.After)
	c.time(&p.Warn)
	c.text(&p.Origin)
	optional(c, &p.Lead)
	c.close(outer)
}

func (c *coder) parent(p *Parent) {
	if !c.has(*p != Parent{}) {
		return
	}
	outer := c.open()
	c.id((*[16]byte)(&p.Run))
	c.step(&p.Step)
	optional(c, &p.Attempt)
	small(c, &p.Close)
	c.id((*[16]byte)(&p.Top))
	optional(c, &p.Depth)
	c.close(outer)
}

func (c *coder) chain(p *Chain) {
	if !c.has(*p != Chain{}) {
		return
	}
	outer := c.open()
	c.id((*[16]byte)(&p.First))
	c.id((*[16]byte)(&p.Previous))
	optional(c, &p.Attempt)
	c.flag(&p.AfterFailure)
	c.close(outer)
}

// failure codes a failure with its chain of causes; the loop keeps a hostile chain off the stack.
func (c *coder) failure(p **policy.Failure) {
	for present := c.has(*p != nil); present; {
		if c.reading {
			*p = new(policy.Failure)
		}
		f := *p
		outer := c.open()
		small(c, &f.Kind)
		c.text(&f.Message)
		c.text(&f.Type)
		optional(c, &f.Code)
		c.bytes((*[]byte)(&f.Details))
		small(c, &f.Limit)
		present = c.has(f.Cause != nil)
		c.text(&f.Origin)
		c.flag(&f.NonRetryable)
		if c.has(f.RetryAfter != nil) {
			if c.reading {
				f.RetryAfter = new(time.Duration)
			}
			number(c, f.RetryAfter)
		}
		small(c, &f.Reason)
		c.known(&f.Also)
		c.bytes((*[]byte)(&f.Encoded))
		c.close(outer)
		p = &f.Cause
	}
}

// known keeps nil and empty apart.
func (c *coder) known(p *[]policy.KnownError) {
	if !c.has(*p != nil) {
		return
	}
	if !c.reading {
		c.buf = binary.AppendUvarint(c.buf, uint64(len(*p)))
	} else {
		n := c.uvarint()
		if n > uint64(len(c.buf)) { // each takes a byte at least
			c.fail("%d errors in %d bytes", n, len(c.buf))
			return
		}
		*p = make([]policy.KnownError, n)
	}
	for i := range *p {
		outer := c.open()
		c.text(&(*p)[i].Type)
		c.bytes((*[]byte)(&(*p)[i].Details))
		c.close(outer)
	}
}

func (c *coder) policyAt(p **policy.Policy) {
	if !c.has(*p != nil) {
		return
	}
	if c.reading {
		*p = new(policy.Policy)
	}
	c.policy(*p)
}

func (c *coder) policy(p *policy.Policy) {
	outer := c.open()
	if c.has(p.Retry != nil) {
		if c.reading {
			p.Retry = new(policy.Retry)
		}
		c.retry(p.Retry)
	}
	c.limit(&p.StartToClose)
	c.limit(&p.ScheduleToClose)
	c.limit(&p.Deadline)
	c.limit(&p.Heartbeat)
	c.limit(&p.Inactivity)
	c.limit(&p.ScheduleToStart)
	c.limit(&p.Wait)
	c.close(outer)
}

func (c *coder) retry(r *policy.Retry) {
	outer := c.open()
	number(c, &r.MaxAttempts)
	optional(c, &r.InitialInterval)
	c.float(&r.BackoffCoefficient)
	optional(c, &r.MaxInterval)
	c.float(&r.Jitter)
	small(c, &r.JitterKind)
	if c.has(r.On != nil) { // nil and empty differ: the default kinds, and none
		c.kinds(&r.On)
	}
	c.text(&r.When)
	c.texts(&r.NonRetryable)
	c.text(&r.Origin)
	optional(c, &r.MaxLost)
	c.close(outer)
}

func (c *coder) kinds(p *[]policy.Kind) {
	n := len(*p)
	number(c, &n)
	if c.reading {
		b := c.take(uint64(n))
		*p = make([]policy.Kind, len(b))
		for i := range b {
			(*p)[i] = policy.Kind(b[i])
		}
		return
	}
	for _, k := range *p {
		c.buf = append(c.buf, byte(k))
	}
}

func (c *coder) limit(p **policy.Limit) {
	if !c.has(*p != nil) {
		return
	}
	if c.reading {
		*p = new(policy.Limit)
	}
	l := *p
	outer := c.open()
	optional(c, &l.After)
	c.time(&l.At)
	c.flag(&l.Retry)
	small(c, &l.OnExpire)
	optional(c, &l.Warn)
	c.flag(&l.Removed)
	c.text(&l.Origin)
	c.text(&l.Expr)
	c.close(outer)
}
