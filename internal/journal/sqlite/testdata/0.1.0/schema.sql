-- format 1
sql=CREATE TABLE attempts_data (
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
) WITHOUT ROWID
sql=CREATE TABLE definitions (
	num    INTEGER PRIMARY KEY,
	id     BLOB NOT NULL UNIQUE,
	kind   TEXT, -- NULL: a run refers to it, but it never came
	name   TEXT,
	source BLOB
)
sql=CREATE TABLE documents (
	key   TEXT PRIMARY KEY,
	value BLOB NOT NULL
) WITHOUT ROWID
sql=CREATE TABLE ended_data (
	run  BLOB PRIMARY KEY,
	rows TEXT NOT NULL
) WITHOUT ROWID
sql=CREATE TABLE feeds (
	partition INTEGER NOT NULL,
	name      TEXT NOT NULL,
	seq       INTEGER NOT NULL, -- the consumer has seen every batch up to here
	lapsed    INTEGER NOT NULL, -- 1: no batches are kept for it
	PRIMARY KEY (partition, name)
) WITHOUT ROWID
sql=CREATE TABLE history (
	run     BLOB NOT NULL,
	seq     INTEGER NOT NULL, -- of the first entry's batch
	sum     INTEGER NOT NULL, -- CRC-32C of entries
	entries BLOB NOT NULL,
	PRIMARY KEY (run, seq)
) WITHOUT ROWID
sql=CREATE TABLE inbox (
	target  INTEGER NOT NULL, -- the partition that the message is for
	sender  INTEGER NOT NULL, -- the partition that it is from
	seq     INTEGER NOT NULL, -- the sender's batch << 20 | number within the batch
	sum     INTEGER NOT NULL, -- CRC-32C of message
	message BLOB NOT NULL,
	PRIMARY KEY (target, sender, seq)
) WITHOUT ROWID
sql=CREATE TABLE journal (
	id      INTEGER PRIMARY KEY, -- partition << 40 | sequence number
	through INTEGER NOT NULL,    -- after this batch the view contains every batch up to here
	sum     INTEGER NOT NULL,    -- CRC-32C of entries
	entries BLOB NOT NULL
)
sql=CREATE TABLE labels (
	run   BLOB NOT NULL,
	key   TEXT NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY (run, key)
) WITHOUT ROWID
sql=CREATE INDEX labels_value ON labels (key, value, run)
sql=CREATE TABLE large_entries (
	id    INTEGER PRIMARY KEY, -- the batch's id << 9 | number among the batch's large entries
	run   BLOB NOT NULL,
	sum   INTEGER NOT NULL, -- CRC-32C of entry
	entry BLOB NOT NULL
)
sql=CREATE INDEX large_entries_run ON large_entries (run)
sql=CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID
sql=CREATE TABLE names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)
sql=CREATE TABLE partitions (
	partition INTEGER PRIMARY KEY,
	epoch     INTEGER NOT NULL, -- grows with each owner; an append carries it
	owner     TEXT NOT NULL
)
sql=CREATE TABLE runs_data (
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
) WITHOUT ROWID
sql=CREATE INDEX runs_deadline ON runs_data (deadline) WHERE ended_at = 0 AND deadline > 0
sql=CREATE INDEX runs_ended ON runs_data (partition, ended_at) WHERE ended_at > 0
sql=CREATE INDEX runs_key ON runs_data (key, workflow) WHERE key IS NOT NULL
sql=CREATE INDEX runs_late ON runs_data (created_at) WHERE created_at IS NOT NULL AND hex(substr(id, 1, 6)) NOT BETWEEN printf('%012X', created_at / 1000 - 3600000) AND printf('%012X', created_at / 1000 + 3600000)
sql=CREATE INDEX runs_parent ON runs_data (parent) WHERE parent IS NOT NULL
sql=CREATE INDEX runs_phase ON runs_data (phase) WHERE phase NOT IN (0, 4)
sql=CREATE INDEX runs_wake ON runs_data (partition, wake) WHERE wake > 0
sql=CREATE INDEX runs_workflow ON runs_data (workflow, phase)
sql=CREATE INDEX runs_workflow_id ON runs_data (workflow_id) WHERE workflow_id IS NOT NULL
sql=CREATE TABLE steps_data (
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
) WITHOUT ROWID
sql=CREATE INDEX steps_retrying ON steps_data (run) WHERE ended_at = 0 AND (attempt > 1 OR phase = 3)
sql=CREATE TABLE taken (
	partition INTEGER NOT NULL,
	sender    INTEGER NOT NULL,
	through   INTEGER NOT NULL, -- the last of the sender's messages that the partition has taken
	PRIMARY KEY (partition, sender)
) WITHOUT ROWID
