package core

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawID draws an id as versions before partition keys made it, or as this one does.
func drawID(t *rapid.T) RunID {
	var id RunID
	copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
	id[6], id[8] = 0x70|id[6]&0x0f, 0x80|id[8]&0x3f
	return id
}

// TestRelativesKeepTheKey checks that children, their children and the next run of a chain live where the first run
// does.
func TestRelativesKeepTheKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := drawID(t)
		key := PartitionKey(id)
		for range rapid.IntRange(1, 5).Draw(t, "generations") {
			r := NewRun(id)
			at := Time(rapid.Int64Range(1, 1<<50).Draw(t, "at"))
			id = r.derive(rapid.Uint64().Draw(t, "salt"), at)
			if PartitionKey(id) != key || id[6]>>4 != 7 || id[8]>>6 != 2 {
				t.Fatalf("run %s starts %s", r.ID, id)
			}
		}
	})
}

// TestNextRunSortsAfter checks that the runs of a chain have ids in their order, however fast they follow one another,
// and wherever the clock goes.
func TestNextRunSortsAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := drawID(t)
		id[0] = 0 // ages before the end of time
		if rapid.Bool().Draw(t, "at the end of a millisecond") {
			id[6], id[7] = 0x7f, 0xff
		}
		at := createdAt(id) + Time(rapid.Int64Range(-1<<40, 1<<20).Draw(t, "later"))
		next := NewRun(id).derive(1, max(at, 1)).After(id)
		if bytes.Compare(next[:], id[:]) <= 0 || next[6]>>4 != 7 || next[8]>>6 != 2 ||
			PartitionKey(next) != PartitionKey(id) {
			t.Fatalf("run %s is followed by %s", id, next)
		}
	})
}

// TestNextRunKeepsTheKey checks that the machine gives the next run of a chain the key of the first one.
func TestNextRunKeepsTheKey(t *testing.T) {
	f, err := parseFixture("run again\na task")
	fatal(t, err)
	r := NewRun(NewRunID(epoch, KeyOfWorkflowID("nightly"), 1, 2))
	for _, in := range []Input{Start{WorkflowID: "nightly"}, TaskStarted{Attempt: 1}, TaskEnded{Attempt: 1}} {
		_, err := Advance(r, f.definition(), in, epoch)
		fatal(t, err)
	}
	if r.Next == (RunID{}) || PartitionKey(r.Next) != KeyOfWorkflowID("nightly") {
		t.Fatalf("run %s is followed by %s", r.ID, r.Next)
	}
}

// TestNamesSayTheKey checks that equal workflow ids agree whatever else a start says; so do equal idempotency keys of
// one workflow.
func TestNamesSayTheKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String()
		name, key := text.Filter(func(s string) bool { return s != "" }).Draw(t, "workflow id"), text.Draw(t, "key")
		at := Time(rapid.Int64Range(1, 1<<50).Draw(t, "at"))
		start := func(workflow, workflowID, key string) uint16 {
			partition := KeyOfStart(workflow, workflowID, key, rapid.Uint16().Draw(t, "random"))
			return PartitionKey(NewRunID(at, partition, 3, rapid.Uint64().Draw(t, "low")))
		}
		if a, b := start("x", name, key), start("y", name, ""); a != b || a != KeyOfWorkflowID(name) {
			t.Fatalf("workflow id %q: %d and %d", name, a, b)
		}
		if a, b := start("x", "", name), start("x", "", name); a != b {
			t.Fatalf("key %q: %d and %d", name, a, b)
		}
		id := drawID(t)
		if KeyOfWorkflowID(id.String()) != PartitionKey(id) {
			t.Fatalf("a run id as workflow id: %s", id)
		}
	})
}

// TestKeysStay checks that the key of a name stays the same in every version, so that the name is looked for in the
// same place.
func TestKeysStay(t *testing.T) {
	for name, want := range map[string]uint16{"": 0x23b0, "order-1": 0x0baf, "order-2": 0x3d5e, "ä": 0x33e6} {
		if got := hashKey(name); got != want {
			t.Errorf("%q: %#x, want %#x", name, got, want)
		}
	}
}

// TestOutboxKeys checks that the key of an outbox's row belongs to the partition of the row's workflow id, and is one
// like any other where the row has no workflow id, or a caller made it up.
func TestOutboxKeys(t *testing.T) {
	for n := range 100 {
		id, row := fmt.Sprint("order-", n), fmt.Sprintf("%032x", n)
		if key := OutboxKey(row, id); KeyOfKey("w", key) != KeyOfWorkflowID(id) {
			t.Errorf("key %q of %q: partition key %#x, want %#x", key, id, KeyOfKey("w", key), KeyOfWorkflowID(id))
		}
	}
	for _, key := range []string{
		OutboxKey("17", ""), "outbox:17@", "outbox:17@xyz", "outbox:17@-1", "outbox:17@4000", "outbox:17@0b0b0baf",
	} {
		if KeyOfKey("w", key) != hashKey("w\x00"+key) {
			t.Errorf("key %q does not belong where its hash says", key)
		}
	}
}

// TestKeysAreEven checks that names that differ in little are spread over the partitions; so are runs without a name.
func TestKeysAreEven(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for what, name := range map[string]func(i int) uint16{
		"numbers": func(i int) uint16 { return KeyOfWorkflowID(fmt.Sprint(i)) },
		"orders":  func(i int) uint16 { return KeyOfWorkflowID(fmt.Sprintf("order-%08d", i)) },
		"days": func(i int) uint16 {
			return KeyOfWorkflowID("nightly@" + epoch.Add(time.Duration(i)*24*time.Hour).String())
		},
		"keys":      func(i int) uint16 { return KeyOfStart("charge", "", fmt.Sprintf("key-%d", i), 0) },
		"workflows": func(i int) uint16 { return KeyOfStart(fmt.Sprintf("w%d", i), "", "key", 0) },
		"none":      func(int) uint16 { return KeyOfStart("charge", "", "", uint16(random.Uint64())) },
	} {
		for _, partitions := range []int{2, 3, 7, 16, 64, 100} {
			const each = 1000
			count := make([]int, partitions)
			for i := range each * partitions {
				count[int(name(i))%partitions]++
			}
			squares := 0.0
			for _, n := range count {
				squares += float64(n-each) * float64(n-each) / each
			}
			// The statistic has the mean partitions-1; six deviations beyond that are no chance.
			if df := float64(partitions - 1); squares > df+6*max(2, 1.5*df) {
				t.Errorf("%s over %d partitions: %v", what, partitions, count)
			}
		}
	}
}

// TestIDsSort checks that ids sort by the instant they were made at, whatever their keys; within a microsecond they are
// different.
func TestIDsSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(at Time) RunID {
			key := rapid.Uint16().Draw(t, "key")
			high, low := rapid.Uint64().Draw(t, "high"), rapid.Uint64().Draw(t, "low")
			return NewRunID(at, key, high, low)
		}
		at := Time(rapid.Int64Range(1, 1<<50).Draw(t, "at"))
		later := at + Time(rapid.Int64Range(1, 1<<40).Draw(t, "later"))
		if a, b := draw(at), draw(later); bytes.Compare(a[:], b[:]) >= 0 {
			t.Fatalf("%s is of %d, %s of %d", a, at, b, later)
		}
	})
	random, seen := rand.New(rand.NewPCG(3, 4)), map[RunID]bool{}
	for range 200_000 {
		id := NewRunID(epoch, 7, random.Uint64(), random.Uint64())
		if seen[id] {
			t.Fatalf("%s twice", id)
		}
		seen[id] = true
	}
	r := NewRun(NewRunID(epoch, 7, 1, 2))
	for salt := range uint64(200_000) {
		id := r.derive(salt<<32|1, epoch)
		if seen[id] {
			t.Fatalf("child %s twice", id)
		}
		seen[id] = true
	}
}
