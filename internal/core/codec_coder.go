package core

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
)

// coder walks the fields of a value, to write them to buf or to read them from it. A method for a field takes a
// pointer: reading sets it (to what the value is, the zero value stays), writing only looks. So each type has one
// list of its fields, and what is written is what is read.
type coder struct {
	buf     []byte // writing: all that was written; reading: what is left
	reading bool
	err     error // reading: the first thing that was wrong
	at      Time  // instants are written as differences to it
	present presence
}

// presence is the state of one struct's presence bits.
type presence struct {
	bits  byte // reading: the current group's
	field byte // fields of the current group so far
	gap   byte // writing: groups since the last one that is written
	pos   int  // writing: where the last written group's byte is
}

// Bits of a presence byte: seven fields, and whether another group follows.
const (
	groupFields = 7
	groupMore   = 1 << groupFields
)

// begin begins to write a struct with a tag.
func (c *coder) begin(tag byte) (outer presence) {
	c.buf = append(c.buf, tag)
	return c.open()
}

// tag begins to read such a struct, and returns its tag. The last known tag is given.
func (c *coder) tag(of string, last byte) (tag byte, outer presence) {
	tag = c.byte()
	switch {
	case c.err != nil:
	case tag == 0:
		c.fail("a %s without a tag", of)
	case tag > last:
		c.err = fmt.Errorf("%w: %s type %d", ErrNewerEntry, of, tag)
	default:
		outer = c.open()
	}
	return tag, outer
}

// open begins a struct and returns the state of the struct around it, for close.
func (c *coder) open() (outer presence) {
	outer = c.present
	c.present = presence{}
	if c.reading {
		c.present.bits = c.byte()
	} else {
		c.present.pos = len(c.buf)
		c.buf = append(c.buf, 0)
	}
	return outer
}

// close ends a struct. Bits that no field has asked for belong to fields of a newer version.
func (c *coder) close(outer presence) {
	if c.reading && c.err == nil && c.present.bits>>c.present.field != 0 {
		c.err = fmt.Errorf("%w: a record with an unknown field", ErrNewerEntry)
	}
	c.present = outer
}

// has handles the presence bit of the next field: it reports whether the field is written, or to be read.
func (c *coder) has(present bool) bool {
	p := &c.present
	if p.field == groupFields {
		p.field = 0
		switch {
		case !c.reading:
			p.gap++
		case p.bits&groupMore != 0:
			p.bits = c.byte()
		default:
			p.bits = 0
		}
	}
	bit := byte(1) << p.field
	p.field++
	if c.reading {
		return p.bits&bit != 0
	}
	if !present {
		return false
	}
	for ; p.gap > 0; p.gap-- {
		c.buf[p.pos] |= groupMore
		p.pos = len(c.buf)
		c.buf = append(c.buf, 0)
	}
	c.buf[p.pos] |= bit
	return true
}

func (c *coder) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: "+format, append([]any{ErrBroken}, args...)...)
	}
	c.buf = nil
}

// take returns the next n bytes of what is read; nil if there are fewer.
func (c *coder) take(n uint64) []byte {
	if n > uint64(len(c.buf)) {
		c.fail("%d bytes are missing", n-uint64(len(c.buf)))
		return nil
	}
	b := c.buf[:n:n]
	c.buf = c.buf[n:]
	return b
}

func (c *coder) byte() byte {
	if len(c.buf) == 0 {
		c.fail("it ends early")
		return 0
	}
	b := c.buf[0]
	c.buf = c.buf[1:]
	return b
}

func (c *coder) uvarint() uint64 {
	v, n := binary.Uvarint(c.buf)
	if n <= 0 {
		c.fail("a number is cut off or too large")
		return 0
	}
	c.buf = c.buf[n:]
	return v
}

func (c *coder) varint() int64 {
	u := c.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// number codes a signed integer without a presence bit.
func number[T ~int | ~int32 | ~int64](c *coder, p *T) {
	if !c.reading {
		c.buf = binary.AppendVarint(c.buf, int64(*p))
		return
	}
	v := c.varint()
	*p = T(v)
	if int64(*p) != v {
		c.fail("the number %d is out of range", v)
	}
}

// optional codes a signed integer that is mostly zero.
func optional[T ~int | ~int32 | ~int64](c *coder, p *T) {
	if c.has(*p != 0) {
		number(c, p)
	}
}

// small codes an enumeration's value that is mostly zero.
func small[T ~uint8](c *coder, p *T) {
	if !c.has(*p != 0) {
		return
	}
	if c.reading {
		*p = T(c.byte())
	} else {
		c.buf = append(c.buf, byte(*p))
	}
}

// step codes a step's number; NoStep takes no more room than the first.
func (c *coder) step(p *StepID) {
	if !c.reading {
		c.buf = binary.AppendUvarint(c.buf, uint64(*p+1))
		return
	}
	v := c.uvarint()
	if v > math.MaxUint32 {
		c.fail("the step number %d is out of range", v)
	}
	*p = StepID(v) - 1
}

// steps keeps nil and empty apart.
func (c *coder) steps(p *[]StepID) {
	if !c.has(*p != nil) {
		return
	}
	if !c.reading {
		c.buf = binary.AppendUvarint(c.buf, uint64(len(*p)))
	} else {
		n := c.uvarint()
		if n > uint64(len(c.buf)) { // each takes a byte at least
			c.fail("%d steps in %d bytes", n, len(c.buf))
			return
		}
		*p = make([]StepID, n)
	}
	for i := range *p {
		c.step(&(*p)[i])
	}
}

// index codes an ordinal from 0, or -1.
func (c *coder) index(p *int32) {
	if !c.reading {
		c.buf = binary.AppendUvarint(c.buf, uint64(uint32(*p+1)))
		return
	}
	v := c.uvarint()
	if v > math.MaxUint32 {
		c.fail("the ordinal %d is out of range", v)
	}
	*p = int32(uint32(v)) - 1
}

// group codes the group that a step is an item of. Most steps are in no group.
func (c *coder) group(item *int32, group *StepID) {
	if c.has(*item != -1 || *group != NoStep) {
		c.index(item)
		c.step(group)
	} else if c.reading {
		*item, *group = -1, NoStep
	}
}

// flag codes a presence bit and nothing else.
func (c *coder) flag(p *bool) {
	if present := c.has(*p); c.reading {
		*p = present
	}
}

// time codes an instant; zero is none.
func (c *coder) time(p *Time) {
	if !c.has(*p != 0) {
		return
	}
	if c.reading {
		*p = c.at + Time(c.varint()) // wraps around, as the writer's difference did
	} else {
		c.buf = binary.AppendVarint(c.buf, int64(*p-c.at))
	}
}

func (c *coder) id(p *[16]byte) {
	if !c.has(*p != [16]byte{}) {
		return
	}
	if c.reading {
		copy(p[:], c.take(uint64(len(p))))
	} else {
		c.buf = append(c.buf, p[:]...)
	}
}

// secret codes a random number; zero is none.
func (c *coder) secret(p *uint64) {
	if !c.has(*p != 0) {
		return
	}
	if c.reading {
		if b := c.take(8); len(b) == 8 {
			*p = binary.LittleEndian.Uint64(b)
		}
	} else {
		c.buf = binary.LittleEndian.AppendUint64(c.buf, *p)
	}
}

func (c *coder) text(p *string) {
	if !c.has(*p != "") {
		return
	}
	if c.reading {
		*p = string(c.take(c.uvarint()))
		return
	}
	c.buf = binary.AppendUvarint(c.buf, uint64(len(*p)))
	c.buf = append(c.buf, *p...)
}

// bytes keeps nil and empty apart.
func (c *coder) bytes(p *[]byte) {
	if !c.has(*p != nil) {
		return
	}
	if !c.reading {
		c.buf = binary.AppendUvarint(c.buf, uint64(len(*p)))
		c.buf = append(c.buf, *p...)
		return
	}
	b := c.take(c.uvarint())
	*p = make([]byte, len(b))
	copy(*p, b)
}

// texts keeps nil and empty apart.
func (c *coder) texts(p *[]string) {
	if !c.has(*p != nil) {
		return
	}
	if !c.reading {
		c.buf = binary.AppendUvarint(c.buf, uint64(len(*p)))
		for _, s := range *p {
			c.buf = binary.AppendUvarint(c.buf, uint64(len(s)))
			c.buf = append(c.buf, s...)
		}
		return
	}
	n := c.uvarint()
	if n > uint64(len(c.buf)) { // each has a length at least
		c.fail("%d texts in %d bytes", n, len(c.buf))
		return
	}
	*p = make([]string, n)
	for i := range *p {
		(*p)[i] = string(c.take(c.uvarint()))
	}
}

// float writes the bytes of a number in reverse: the low ones of a round number are zero.
func (c *coder) float(p *float64) {
	if !c.has(*p != 0) {
		return
	}
	if c.reading {
		*p = math.Float64frombits(bits.ReverseBytes64(c.uvarint()))
	} else {
		c.buf = binary.AppendUvarint(c.buf, bits.ReverseBytes64(math.Float64bits(*p)))
	}
}
