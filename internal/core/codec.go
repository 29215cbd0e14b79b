package core

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Errors of ReadEntry and ReadHistory.
var (
	// ErrBroken is the error for bytes that are not an entry: truncated, or damaged.
	ErrBroken = errors.New("core: broken entry")
	// ErrNewerEntry is the error for an entry with something that only a newer version of Pawl knows. Folding a run
	// without it would give a wrong state, so it is refused rather than skipped.
	ErrNewerEntry = errors.New("core: entry written by a newer version of Pawl")
)

// The encoding of an entry:
//
//	header   one byte: version << 4 | run present << 3 | number of records (7: a uvarint with the number follows)
//	run      16 bytes, where present; an entry in its run's own history leaves it out
//	at       zigzag, microseconds since the instant within the run's id, which is a UUIDv7: two bytes at first
//	records  each a tag, then its fields
//
// A struct's fields stand in the order of its method "fields", which serves reading and writing alike. codecgen writes
// the methods of records and of messages from their structs.
// Fields that are often absent cost one bit: groups of seven such fields share a byte of presence bits in front of
// the first, whose eighth bit says that a later group has a field, too. Integers are uvarints, signed ones zigzag;
// instants are microseconds since the entry's At; text and bytes have their length in front.
//
// What may change without a new version:
//   - A struct gains a field: it goes to the end of the struct, with a presence bit. Old entries lack the bit and
//     give the zero value; an old reader meets a bit it does not know and answers ErrNewerEntry.
//   - A record type is added: it gets the next tag, in a comment such as //record:36.
//
// A tag, a field's place and an enumeration's number are never given a new meaning. All else needs a new version,
// whose reader keeps reading this one.
const codecVersion = 1

//go:generate go run ./codecgen

const (
	headerRun   = 1 << 3
	headerCount = 1<<3 - 1
)

// AppendEntry appends the entry's encoding to dst.
func AppendEntry(dst []byte, e *Entry) []byte { return appendEntry(dst, e, headerRun) }

// AppendHistory appends as AppendEntry does, without the run's id, for a place that says whose entries it holds.
func AppendHistory(dst []byte, e *Entry) []byte { return appendEntry(dst, e, 0) }

// AppendOmitted appends encoded entries of a run's own history to dst. The first of them leaves the run's id out.
func AppendOmitted(dst, entries []byte) []byte {
	const at = 1 // where the id is after the header, unless the number of records is in between
	if len(entries) < at+len(RunID{}) || entries[0]&headerRun == 0 || entries[0]&headerCount == headerCount {
		return append(dst, entries...)
	}
	dst = append(dst, entries[0]&^headerRun)
	return append(dst, entries[at+len(RunID{}):]...)
}

func appendEntry(dst []byte, e *Entry, header byte) []byte {
	header |= codecVersion << 4
	if len(e.Records) < headerCount {
		dst = append(dst, header|byte(len(e.Records)))
	} else {
		dst = append(dst, header|headerCount)
		dst = binary.AppendUvarint(dst, uint64(len(e.Records)))
	}
	if header&headerRun != 0 {
		dst = append(dst, e.Run[:]...)
	}
	dst = binary.AppendVarint(dst, int64(e.At-createdAt(e.Run)))
	c := coder{buf: dst, at: e.At}
	for _, r := range e.Records {
		c.writeRecord(r)
	}
	return c.buf
}

// ReadEntry decodes the entry that src begins with and returns what follows it. The entry shares no memory with src.
// Errors: ErrBroken, ErrNewerEntry.
func ReadEntry(src []byte) (e Entry, rest []byte, err error) {
	return readEntry(src, RunID{}, false)
}

// ReadEntries decodes entries that stand one after the other, as a batch holds them.
func ReadEntries(src []byte) ([]Entry, error) {
	var entries []Entry
	for len(src) > 0 {
		e, rest, err := ReadEntry(src)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
		src = rest
	}
	return entries, nil
}

// ReadHistory decodes an entry of the run, whether its encoding holds the run's id or leaves it out.
func ReadHistory(run RunID, src []byte) (e Entry, rest []byte, err error) {
	return readEntry(src, run, true)
}

// readEntry decodes one entry. A panic is a bug of the codec; it counts as an entry that cannot be read, so that it
// stops no other run.
func readEntry(src []byte, run RunID, known bool) (e Entry, rest []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			e, rest, err = Entry{}, nil, fmt.Errorf("%w: reading it panicked: %v", ErrBroken, v)
		}
	}()
	return decodeEntry(src, run, known)
}

func decodeEntry(src []byte, run RunID, known bool) (Entry, []byte, error) {
	c := coder{buf: src, reading: true}
	header := c.byte()
	if c.err == nil && header>>4 != codecVersion {
		if header>>4 > codecVersion {
			return Entry{}, nil, fmt.Errorf("%w: encoding version %d, this one knows %d", ErrNewerEntry, header>>4,
				codecVersion)
		}
		return Entry{}, nil, fmt.Errorf("%w: it begins with %#x", ErrBroken, header)
	}
	count := uint64(header & headerCount)
	if count == headerCount {
		count = c.uvarint()
	}
	e := Entry{Run: run}
	if header&headerRun != 0 {
		copy(e.Run[:], c.take(uint64(len(e.Run))))
		if known && e.Run != run && c.err == nil {
			return Entry{}, nil, fmt.Errorf("%w: it is of run %s, in the history of %s", ErrBroken, e.Run, run)
		}
	} else if !known && c.err == nil {
		return Entry{}, nil, fmt.Errorf("%w: it names no run", ErrBroken)
	}
	e.At = createdAt(e.Run) + Time(c.varint())
	c.at = e.At
	if count > uint64(len(c.buf)) { // every record has a tag at least
		c.fail("%d records in %d bytes", count, len(c.buf))
	}
	if c.err == nil && count > 0 {
		e.Records = make([]Record, 0, count)
		for range count {
			tag, outer := c.tag("record", lastRecord)
			if c.err != nil {
				break
			}
			r := c.readRecord(tag)
			c.close(outer)
			if c.err != nil {
				break
			}
			e.Records = append(e.Records, r)
		}
	}
	if c.err != nil {
		return Entry{}, nil, c.err
	}
	return e, c.buf, nil
}

// createdAt returns the instant that a UUIDv7 holds in its first six bytes, milliseconds since the epoch.
func createdAt(id RunID) Time {
	var b [8]byte
	copy(b[2:], id[:6])
	return Time(binary.BigEndian.Uint64(b[:])) * 1000
}
