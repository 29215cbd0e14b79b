package sqlite

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"time"

	fast "github.com/klauspost/compress/flate"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// packed is the first byte of a piece of history in DEFLATE (RFC 1951) with the dictionary. No entry begins with it. A
// file may hold millions of resting runs, such as schedules, and their histories are the largest part of it.
const packed = 1

// worthPacking is how many bytes a piece has at least that is packed, and restsFor how long its run rests at least.
const (
	worthPacking = 64
	restsFor     = time.Minute
)

// dictionary is the common content of the histories of resting runs: words of schedules, then a schedule in its first
// stored form. It is a part of the file's format: a change takes another first byte.
const dictionary = `"timezone":"America/New_York","timezone":"Asia/","timezone":"Europe/","timezone":"UTC","jitter":"` +
	`"catchUp":"1h","overlap":"queue","overlap":"skip","times":[{"every":"@hourly@daily"],"exclude":["` +
	`"paused":{"at":"2026-"actor":"reason":"skips":["backfills":[{"after":"before":"waiting":["failures":` +
	`"open":[{"firing":"labels":{"headers":{"input":{"file":"flows/.yaml","since":"2026-01-01T00:00:00Z",` +
	`"due":"2026-01-01T00:00:00Z","last":"2026-01-01T00:00:00Z","lastRun":"fired":1,"missed":1,"` +
	"\x12\xe0\x05\x01\x4f\x24\x30\xf1\xa2\xad\x29\x82\x06\xd0\x06\x78\x85\x48\x8a\x4c\x89\xe2\x0d" +
	"pawl.schedule\x86\x01" +
	`{"version":1,"name":"","cron":"*/5 0 1 * *","workflow":"","kind":"flow","definition":"` + "\"}\x04\x02\x09@"

// pack makes the pieces of runs that rest small.
type pack struct {
	runs  []journal.RunRow // those of the view that have not been passed, in the order of the pieces
	plain []byte
	small bytes.Buffer
}

// piece returns a piece in its stored form. The result is valid until the next call.
func (p *pack) piece(h *journal.HistoryRow, entries []byte) ([]byte, error) {
	if len(entries) > 0 && entries[0] != refers {
		p.plain = core.AppendOmitted(p.plain[:0], entries)
		entries = p.plain
	}
	if len(entries) < worthPacking || !p.rests(h.Run) {
		return entries, nil
	}
	p.small.Reset()
	p.small.WriteByte(packed)
	if err := fast.StatelessDeflate(&p.small, entries, true, []byte(dictionary)); err != nil {
		return nil, err
	}
	if p.small.Len() >= len(entries) {
		return entries, nil
	}
	return p.small.Bytes(), nil
}

// rests reports whether nothing happens to a run for a while, according to its row.
func (p *pack) rests(run core.RunID) bool {
	for len(p.runs) > 0 && p.runs[0].ID != run {
		p.runs = p.runs[1:]
	}
	if len(p.runs) == 0 {
		return false
	}
	r := &p.runs[0]
	return !r.Phase.Closed() && (r.Wake == 0 || r.Wake > policy.At(time.Now().Add(restsFor)))
}

// unpack returns the entries of a piece that was packed.
func unpack(b []byte) ([]byte, error) {
	r := flate.NewReaderDict(bytes.NewReader(b[1:]), []byte(dictionary))
	whole, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%w: it cannot be unpacked: %w", core.ErrBroken, err)
	}
	return whole, nil
}
