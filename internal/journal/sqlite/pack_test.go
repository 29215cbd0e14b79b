package sqlite

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// TestDictionary checks that the dictionary, a part of the file's format, is that of version 0.1.0, and that a piece of
// that version is read.
func TestDictionary(t *testing.T) {
	sum := sha256.Sum256([]byte(dictionary))
	if got := hex.EncodeToString(sum[:8]); got != "437be61564508b68" {
		t.Errorf("the dictionary is %s: a change takes another first byte than packed", got)
	}
	const stored = "01c36a765e667a46494e25c20a03051305430573740b4031560a4a1878ac49f32b494af3d60db170" +
		"0e8fcac82c748df08c0c2c4957aa0500"
	b, err := hex.DecodeString(stored)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := unpack(b)
	if err != nil || !strings.Contains(string(whole), `"cron":"0 4 1 7 *","workflow":"backup"`) {
		t.Errorf("%v: %q", err, whole)
	}
}

// TestPacked checks which pieces of history are packed, and that each is read as it was written.
func TestPacked(t *testing.T) {
	for name, c := range map[string]struct {
		row    journal.RunRow
		packed bool
	}{
		"a schedule":          {journal.RunRow{Wake: policy.At(time.Now().Add(time.Hour))}, true},
		"waits for an event":  {journal.RunRow{Phase: core.RunWaiting}, true},
		"wakes soon":          {journal.RunRow{Wake: policy.At(time.Now().Add(time.Second))}, false},
		"has something to do": {journal.RunRow{Wake: 1}, false},
		"has ended":           {journal.RunRow{Phase: core.RunSucceeded}, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAppender(t)
			now := policy.At(time.Now())
			id := core.NewRunID(now, 0, 0, 1)
			input := bytes.Repeat([]byte(`{"cron":"0 4 * * *"}`), 5)
			entry := core.Entry{Run: id, At: now, Records: []core.Record{
				core.RunCreated{Workflow: "pawl.schedule", Input: input},
			}}
			c.row.ID, c.row.CreatedAt, c.row.Workflow, c.row.Applied = id, now, "pawl.schedule", 1
			whole := core.AppendEntry(nil, &entry)
			a.append(journal.Batch{Entries: []core.Entry{entry}, View: &journal.View{
				Runs: []journal.RunRow{c.row}, History: []journal.HistoryRow{{Run: id, Seq: 1, Entries: whole}},
			}})
			a.one("SELECT (SELECT length(entries) FROM history) < 30", map[bool]int64{true: 1}[c.packed])
			h, err := a.j.History(t.Context(), id)
			if err != nil || len(h.Entries) != 1 || !bytes.Equal(core.AppendEntry(nil, &h.Entries[0]), whole) {
				t.Errorf("%v: %+v", err, h)
			}
		})
	}
}

// TestBrokenPack checks that a piece that cannot be unpacked is an error.
func TestBrokenPack(t *testing.T) {
	if _, err := unpack([]byte{packed, 0xff, 0xff}); !errors.Is(err, core.ErrBroken) {
		t.Errorf("unpacked: %v", err)
	}
}
