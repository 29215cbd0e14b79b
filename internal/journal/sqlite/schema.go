package sqlite

import (
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// format is the version of the file format. Open refuses files with another one.
const format = 1

// applicationID marks a file as Pawl's: "Pawl" in ASCII, in the SQLite header.
const applicationID = 0x5061776c

// pageSize is the size of a page, in bytes. A commit writes whole pages to the log, so small pages are good for small
// appends and large pages for many rows. 8 and 16 KiB were equally fast for many rows; for single entries 8 KiB was 5
// to 15 percent faster.
const pageSize = 8 << 10

// schema creates a file's tables. Tables whose key is a run's id have no rowid: ids grow with time, so rows are
// appended, and the id is stored only once. Indexes are partial: a run is only in those by which it can be found.
const schema = `
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE partitions (
	partition INTEGER PRIMARY KEY,
	epoch     INTEGER NOT NULL, -- grows with each owner; an append carries it
	owner     TEXT NOT NULL
);
CREATE TABLE journal (
	id      INTEGER PRIMARY KEY, -- partition << 40 | sequence number
	through INTEGER NOT NULL,    -- after this batch the view contains every batch up to here
	sum     INTEGER NOT NULL,    -- CRC-32C of entries
	entries BLOB NOT NULL
);
CREATE TABLE names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE definitions (
	num    INTEGER PRIMARY KEY,
	id     BLOB NOT NULL UNIQUE,
	kind   TEXT, -- NULL: a run refers to it, but it never came
	name   TEXT,
	source BLOB
);
CREATE TABLE runs_data (
	id          BLOB PRIMARY KEY,
	partition   INTEGER NOT NULL,
	workflow    INTEGER NOT NULL, -- names
	workflow_id TEXT,
	key         TEXT,
	definition  INTEGER NOT NULL, -- definitions.num; 0: none
	phase       INTEGER NOT NULL,
	created_at  INTEGER,          -- NULL: at the instant that the id was made of
	ended_at    INTEGER NOT NULL, -- instants are microseconds since 1970; 0: none
	deadline    INTEGER NOT NULL,
	wake        INTEGER NOT NULL, -- 1, 2: at once; 0: never
	parent      BLOB,
	message     TEXT,
	applied     INTEGER NOT NULL  -- the batch that row and history are folded to
) WITHOUT ROWID;
CREATE INDEX runs_wake ON runs_data (partition, wake) WHERE wake > 0;
CREATE INDEX runs_ended ON runs_data (partition, ended_at) WHERE ended_at > 0;
CREATE INDEX runs_workflow_id ON runs_data (workflow_id) WHERE workflow_id IS NOT NULL;
CREATE INDEX runs_key ON runs_data (key, workflow) WHERE key IS NOT NULL;
CREATE TABLE steps_data (
	run          BLOB NOT NULL,
	step         INTEGER NOT NULL,
	name         TEXT NOT NULL,
	kind         INTEGER NOT NULL,
	phase        INTEGER NOT NULL,
	reason       INTEGER NOT NULL,
	attempt      INTEGER NOT NULL,
	scheduled_at INTEGER NOT NULL,
	ended_at     INTEGER NOT NULL,
	next_at      INTEGER NOT NULL,
	deadline     INTEGER NOT NULL,
	message      TEXT,
	PRIMARY KEY (run, step)
) WITHOUT ROWID;
CREATE TABLE attempts_data (
	run        BLOB NOT NULL,
	step       INTEGER NOT NULL,
	attempt    INTEGER NOT NULL,
	ready_at   INTEGER NOT NULL,
	started_at INTEGER NOT NULL,
	ended_at   INTEGER NOT NULL,
	worker     INTEGER NOT NULL, -- names; 0: none
	outcome    INTEGER NOT NULL, -- names; 0: open
	"limit"    INTEGER NOT NULL,
	message    TEXT,
	PRIMARY KEY (run, step, attempt)
) WITHOUT ROWID;
CREATE TABLE history (
	run     BLOB NOT NULL,
	seq     INTEGER NOT NULL, -- of the first entry's batch
	sum     INTEGER NOT NULL, -- CRC-32C of entries
	entries BLOB NOT NULL,
	PRIMARY KEY (run, seq)
) WITHOUT ROWID;
`

const feedTable = `
CREATE TABLE feeds (
	partition INTEGER NOT NULL,
	name      TEXT NOT NULL,
	seq       INTEGER NOT NULL, -- the consumer has seen every batch up to here
	lapsed    INTEGER NOT NULL, -- 1: no batches are kept for it
	PRIMARY KEY (partition, name)
) WITHOUT ROWID;
`

// readable returns the views for people, by name. They hold no data, so Open replaces those that differ.
func readable() map[string]string {
	return map[string]string{
		"runs": "SELECT " + strings.Join([]string{
			uuid("r.id") + " AS id",
			"n.name AS workflow",
			"coalesce(r.workflow_id, " + uuid("r.id") + ") AS workflow_id",
			named[core.RunPhase]("r.phase") + " AS phase",
			instant("coalesce(r.created_at, 1000 * ("+milliseconds("r.id")+"))") + " AS created_at",
			instant("r.ended_at") + " AS ended_at",
			instant("r.deadline") + " AS deadline",
			"CASE WHEN r.wake IN (1, 2) THEN 'now' ELSE " + instant("r.wake") + " END AS wake",
			"r.message AS message",
			"r.key AS key",
			"CASE WHEN r.parent IS NOT NULL THEN " + uuid("r.parent") + " END AS parent",
			"lower(hex(d.id)) AS definition",
			"r.partition AS partition",
			"r.applied AS applied",
			labelsOf + " AS labels",
		}, ",\n\t") + "\nFROM runs_data r LEFT JOIN names n ON n.id = r.workflow" +
			" LEFT JOIN definitions d ON d.num = r.definition",
		"steps": "SELECT " + strings.Join([]string{
			uuid("run") + " AS run",
			"step",
			"name",
			named[core.StepKind]("kind") + " AS kind",
			named[core.StepPhase]("phase") + " AS phase",
			"nullif(" + named[policy.Reason]("reason") + ", '') AS reason",
			"attempt",
			instant("scheduled_at") + " AS scheduled_at",
			instant("ended_at") + " AS ended_at",
			instant("next_at") + " AS next_at",
			instant("deadline") + " AS deadline",
			"message",
		}, ",\n\t") + "\nFROM " + allSteps,
		"attempts": "SELECT " + strings.Join([]string{
			uuid("a.run") + " AS run",
			"a.step AS step",
			"a.name AS name",
			"a.attempt AS attempt",
			"o.name AS outcome",
			"nullif(" + named[policy.LimitKind](`a."limit"`) + `, '') AS "limit"`,
			instant("a.ready_at") + " AS ready_at",
			instant("a.started_at") + " AS started_at",
			instant("a.ended_at") + " AS ended_at",
			"(nullif(a.ended_at, 0) - a.started_at) / 1e6 AS seconds",
			"w.name AS worker",
			"a.message AS message",
		}, ",\n\t") + "\nFROM " + allAttempts + " a" +
			"\nLEFT JOIN names w ON w.id = a.worker LEFT JOIN names o ON o.id = a.outcome",
	}
}

// uuid prints a run's id as people write it.
func uuid(column string) string {
	part := func(from, n int) string { return fmt.Sprintf("substr(hex(%s), %d, %d)", column, from, n) }
	parts := []string{part(1, 8), part(9, 4), part(13, 4), part(17, 4), part(21, 12)}
	return "lower(" + strings.Join(parts, " || '-' || ") + ")"
}

// milliseconds returns the number in the first six bytes of a run's id, of which each digit of hex is looked up.
func milliseconds(column string) string {
	var digits []string
	for n := range 12 {
		digit := fmt.Sprintf("instr('123456789ABCDEF', substr(hex(%s), %d, 1))", column, n+1)
		digits = append(digits, fmt.Sprintf("(%s << %d)", digit, 44-4*n))
	}
	return strings.Join(digits, " + ")
}

// instant prints microseconds as RFC 3339 with milliseconds.
func instant(column string) string {
	return "strftime('%Y-%m-%dT%H:%M:%fZ', nullif(" + column + ", 0) / 1e6, 'unixepoch')"
}

// named prints the value of an enumeration by its name in Go.
func named[T interface {
	~uint8
	String() string
}](column string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "CASE %s", column)
	for v := T(0); !strings.HasPrefix(v.String(), "unknown"); v++ {
		fmt.Fprintf(&b, " WHEN %d THEN '%s'", v, v)
	}
	fmt.Fprintf(&b, " ELSE %s END", column)
	return b.String()
}
