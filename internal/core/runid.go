package core

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// RunID identifies a run. It is a UUIDv7, so ids sort by creation, and it contains the partition key: the partition of
// the run follows from its id alone.
//
//	0199d2c3-1a2b  48 bits  milliseconds since 1970
//	7cde            4 bits  version, 7
//	               12 bits  made by NewRunID: 10 bits of microseconds, 2 random; derived: a hash, or a next number
//	9f01            2 bits  variant, binary 10
//	               14 bits  partition key
//	0a0b0c0d0e0f   48 bits  random, or a hash
//
// In a journal of one partition every key belongs to partition 0.
type RunID [16]byte

// keyBits is the length of a partition key: there may be up to 16,384 partitions.
const keyBits = 14

// NewRunID makes an id from its instant, a partition key and random numbers. Of low the last 48 bits are used, of high
// the last two: two ids of one microsecond and one key are the same with a probability of 1 in 2^50.
func NewRunID(now Time, key uint16, high, low uint64) RunID {
	var id RunID
	id.setTime(now)
	fraction := uint16(uint64(now)%1000)<<2 | uint16(high&3)
	binary.BigEndian.PutUint16(id[6:], 0x7000|fraction)
	binary.BigEndian.PutUint64(id[8:], low)
	id.setKey(key)
	return id
}

// setTime writes the milliseconds.
func (id *RunID) setTime(now Time) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(now)/1000)
	copy(id[:6], b[2:])
}

// setKey writes the variant and the partition key.
func (id *RunID) setKey(key uint16) {
	binary.BigEndian.PutUint16(id[8:], 0x8000|key&(1<<keyBits-1))
}

// PartitionKey returns the 14 bits of an id that determine its partition: of n partitions it is key % n. The runs of a
// chain have the same key, and so have a run and its children, unless they are spread on purpose.
func PartitionKey(id RunID) uint16 {
	return binary.BigEndian.Uint16(id[8:]) & (1<<keyBits - 1)
}

// KeyOfStart returns the partition key of a new run, so that the partition can be found by the names that its caller
// chose: it comes from the workflow id, else from the idempotency key, which belongs to its workflow. A run without
// such a name gets a random one.
func KeyOfStart(workflow, workflowID, key string, random uint16) uint16 {
	switch {
	case workflowID != "":
		return KeyOfWorkflowID(workflowID)
	case key != "":
		return KeyOfKey(workflow, key)
	default:
		return random & (1<<keyBits - 1)
	}
}

// KeyOfKey returns the partition key of an idempotency key. A start with such a key learns there which run has it. A
// key of [OutboxKey] belongs to the partition that it names, any other one to that of the hash of both names.
func KeyOfKey(workflow, key string) uint16 {
	if row, found := strings.CutPrefix(key, outboxKeys); found {
		_, home, _ := strings.Cut(row, "@")
		if n, err := strconv.ParseUint(home, 16, keyBits); err == nil {
			return uint16(n)
		}
	}
	return hashKey(workflow + "\x00" + key)
}

// outboxKeys is how the idempotency keys begin that an outbox gives to starts.
const outboxKeys = "outbox:"

// OutboxKey returns the idempotency key of a start in a row of an outbox. The row always names the same workflow id, so
// its key belongs to the same partition as the run: the start needs no other one.
func OutboxKey(row, workflowID string) string {
	if workflowID == "" {
		return outboxKeys + row
	}
	return fmt.Sprintf("%s%s@%04x", outboxKeys, row, KeyOfWorkflowID(workflowID))
}

// KeyOfWorkflowID returns the partition key of the runs with that workflow id. A run id counts as one: if the first run
// of a chain has no workflow id, its id is the workflow id of the runs that follow.
func KeyOfWorkflowID(workflowID string) uint16 {
	if id, err := ParseRunID(workflowID); err == nil {
		return PartitionKey(id)
	}
	return hashKey(workflowID)
}

// hashKey makes a partition key of a name: the last 14 of the first 16 bits of its SHA-256. It must never change,
// because runs are looked for in the partition that it returns.
func hashKey(name string) uint16 {
	sum := sha256.Sum256([]byte(name))
	return binary.BigEndian.Uint16(sum[:]) & (1<<keyBits - 1)
}

// derive makes the id of a run this one starts, in the partition of this one. It is a function of this run and the id's
// purpose, so a repeated start finds the same run; its time part makes it sort like any other id.
func (r *Run) derive(salt uint64, now Time) RunID {
	var about [24]byte
	copy(about[:], r.ID[:])
	binary.BigEndian.PutUint64(about[16:], salt)
	sum := sha256.Sum256(about[:])
	id := RunID(sum[:16])
	id.setTime(now)
	id[6] = 0x70 | id[6]&0x0f
	id.setKey(PartitionKey(r.ID))
	return id
}

// After moves an id behind another one, if it does not sort there: both may be of one millisecond, or the clock may
// have gone back.
func (id RunID) After(other RunID) RunID {
	if bytes.Compare(id[:8], other[:8]) > 0 {
		return id
	}
	next := binary.BigEndian.Uint64(other[:8]) + 1
	if next&0xfff == 0 { // the next millisecond begins, above the version
		next += 0x10000 - 0x1000
	}
	binary.BigEndian.PutUint64(id[:], next)
	return id
}

// spread gives an id that was derived for a child run a partition of its own.
func (id *RunID) spread() {
	sum := sha256.Sum256(id[:])
	id.setKey(binary.BigEndian.Uint16(sum[:]))
}

func (id RunID) String() string {
	var b [36]byte
	hex.Encode(b[0:8], id[0:4])
	hex.Encode(b[9:13], id[4:6])
	hex.Encode(b[14:18], id[6:8])
	hex.Encode(b[19:23], id[8:10])
	hex.Encode(b[24:36], id[10:16])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// ParseRunID reads a run id as String prints it.
func ParseRunID(s string) (RunID, error) {
	var id RunID
	if len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' {
		compact := s[0:8] + s[9:13] + s[14:18] + s[19:23] + s[24:36]
		if _, err := hex.Decode(id[:], []byte(compact)); err == nil {
			return id, nil
		}
	}
	return RunID{}, fmt.Errorf("%q is not a run id (expected a UUID such as 0199d2c3-…)", s)
}

// MarshalText gives the id's text.
func (id RunID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText accepts the id's text.
func (id *RunID) UnmarshalText(b []byte) error {
	v, err := ParseRunID(string(b))
	if err == nil {
		*id = v
	}
	return err
}

// Instant returns the instant that the id was made of, to the microsecond, zero if it was not made by NewRunID. A
// derived id may have any instant of its millisecond.
func (id RunID) Instant() Time {
	fraction := binary.BigEndian.Uint16(id[6:]) & 0xfff >> 2
	if fraction >= 1000 {
		return 0
	}
	return createdAt(id) + Time(fraction)
}

// CreatedAt returns when the run was created, to the millisecond, from its id.
func (id RunID) CreatedAt() Time { return createdAt(id) }
