CREATE TABLE {schema}.meta (key text PRIMARY KEY, value text NOT NULL);

-- The row of a partition changes with each batch, so its page keeps room for the new version.
CREATE TABLE {schema}.partitions (
	partition int PRIMARY KEY,
	epoch     bigint NOT NULL,      -- grows with each owner; an append has to know it
	owner     text NOT NULL,        -- empty: nobody
	until     timestamptz NOT NULL, -- the end of the lease, by the clock of the database
	term      bigint NOT NULL,      -- microseconds from a sign of life to the end of the lease
	last      bigint NOT NULL,      -- the last batch
	through   bigint NOT NULL,      -- the view contains every batch up to here
	mark      bigint NOT NULL       -- of the statement that wrote the row: whoever got no answer finds it again
) WITH (fillfactor = 50);

CREATE TABLE {schema}.journal (
	partition int NOT NULL,
	seq       bigint NOT NULL,
	sum       int NOT NULL, -- CRC-32C of entries
	entries   bytea NOT NULL,
	PRIMARY KEY (partition, seq)
);
-- A batch lives for a second or so: compressing it would cost more than it saves.
ALTER TABLE {schema}.journal ALTER COLUMN entries SET STORAGE EXTERNAL;

CREATE TABLE {schema}.feeds (
	partition int NOT NULL,
	name      text NOT NULL,
	seq       bigint NOT NULL,  -- the consumer has seen every batch up to here
	lapsed    boolean NOT NULL, -- no batches are kept for it
	removed   boolean NOT NULL, -- it is deleted when the journal is trimmed
	PRIMARY KEY (partition, name)
);

CREATE TABLE {schema}.definitions (
	id     uuid PRIMARY KEY,
	kind   text NOT NULL,
	name   text NOT NULL,
	source bytea NOT NULL
);

-- The columns of eight bytes stand first, so that no row has gaps. Instants are microseconds since 1970; 0: none.
CREATE TABLE {schema}.runs_data (
	created_at  bigint NOT NULL,
	ended_at    bigint NOT NULL,
	deadline    bigint NOT NULL,
	wake        bigint NOT NULL, -- 1, 2: at once; 0: never
	applied     bigint NOT NULL, -- the batch that row and history are folded to
	partition   int NOT NULL,
	phase       smallint NOT NULL,
	id          uuid PRIMARY KEY,
	definition  uuid,
	parent      uuid,
	workflow    text NOT NULL,
	workflow_id text,
	key         text,
	message     text,
	labels      text,  -- what runs can be searched by: lines "key=value", sorted by key; NULL: none
	piece       bytea, -- the first piece of the history of a run that was written at once; NULL: it has rows of its own
	steps       text   -- likewise the steps; see fold.go
);
-- Runs that are due at the same microsecond are few, so they are sorted when they are read.
CREATE INDEX runs_due ON {schema}.runs_data (partition, wake) WHERE wake > 0;
CREATE INDEX runs_ended ON {schema}.runs_data (partition, ended_at, id) WHERE ended_at > 0;
-- Names may be longer than an entry of an index can be.
CREATE INDEX runs_workflow_id ON {schema}.runs_data (left(workflow_id, 200), id) WHERE workflow_id IS NOT NULL;
CREATE INDEX runs_key ON {schema}.runs_data (left(key, 200), id) WHERE key IS NOT NULL;
CREATE INDEX runs_labels ON {schema}.runs_data USING gin (string_to_array(labels, chr(10))) WHERE labels IS NOT NULL;
-- What lists are read by. One index by workflow serves lists with phases and without: each phase by itself is in order,
-- and there are few of them. Nearly all runs succeed, so those that did are left out where it can be.
CREATE INDEX runs_named ON {schema}.runs_data (left(workflow, 200), phase, id);
CREATE INDEX runs_created ON {schema}.runs_data (created_at);
CREATE INDEX runs_phase ON {schema}.runs_data (phase, id) WHERE phase <> 4;
CREATE INDEX runs_parent ON {schema}.runs_data (parent, id) WHERE parent IS NOT NULL;
CREATE INDEX runs_deadline ON {schema}.runs_data (deadline, id) WHERE ended_at = 0 AND deadline > 0;

CREATE TABLE {schema}.steps_data (
	scheduled_at bigint NOT NULL,
	ended_at     bigint NOT NULL,
	next_at      bigint NOT NULL,
	deadline     bigint NOT NULL,
	step         int NOT NULL,
	attempt      int NOT NULL,
	kind         smallint NOT NULL,
	phase        smallint NOT NULL,
	reason       smallint NOT NULL,
	run          uuid NOT NULL,
	name         text NOT NULL,
	message      text,
	PRIMARY KEY (run, step)
);
CREATE INDEX steps_retrying ON {schema}.steps_data (run) WHERE ended_at = 0 AND (attempt > 1 OR phase = 3);

CREATE TABLE {schema}.attempts_data (
	ready_at   bigint NOT NULL,
	started_at bigint NOT NULL,
	ended_at   bigint NOT NULL,
	step       int NOT NULL,
	attempt    int NOT NULL,
	"limit"    smallint NOT NULL,
	run        uuid NOT NULL,
	worker     text,
	outcome    text, -- NULL: open
	message    text,
	PRIMARY KEY (run, step, attempt)
);

CREATE TABLE {schema}.history (
	seq     bigint NOT NULL, -- of the first entry's batch
	sum     int NOT NULL,    -- CRC-32C of entries
	run     uuid NOT NULL,
	entries bytea NOT NULL,
	PRIMARY KEY (run, seq)
);

CREATE TABLE {schema}.inbox (
	target  int NOT NULL,    -- the partition that the message is for
	sender  int NOT NULL,    -- the partition that it is from
	seq     bigint NOT NULL, -- the sender's batch << 20 | number within the batch
	sum     int NOT NULL,    -- CRC-32C of message
	message bytea NOT NULL,
	PRIMARY KEY (target, sender, seq)
);

CREATE TABLE {schema}.taken (
	partition int NOT NULL,
	sender    int NOT NULL,
	through   bigint NOT NULL, -- the last of the sender's messages that the partition has taken
	PRIMARY KEY (partition, sender)
);

-- What callers write within transactions of their own, until an engine has delivered it; see package outbox. A
-- transaction on another database is refused by the constraint: its name is the message that the caller sees.
CREATE TABLE {schema}.outbox (
	seq        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	id         text NOT NULL UNIQUE,
	message    text NOT NULL,
	created_ms bigint NOT NULL,
	failure    text, -- why it can never be delivered; NULL: it waits
	database   text NOT NULL DEFAULT '{database}'
		CONSTRAINT the_transaction_is_not_on_the_database_of_the_engine CHECK (database = '{database}')
);

-- Values beside the runs, such as webhooks and their deliveries. Keys are compared byte by byte.
CREATE TABLE {schema}.documents (
	key   text COLLATE "C" PRIMARY KEY,
	value bytea NOT NULL
);

-- The processes that share the partitions. The clock of all instants is the database's.
CREATE TABLE {schema}.nodes (
	id      text PRIMARY KEY,
	address text NOT NULL,    -- where the others reach it
	version text NOT NULL,
	secret  text NOT NULL,    -- a fingerprint of the cluster's secret
	since   timestamptz NOT NULL,
	beat    timestamptz NOT NULL, -- the last sign of life
	term    bigint NOT NULL,  -- microseconds from a sign of life until the node counts as dead
	leaving boolean NOT NULL, -- it gives back what it owns
	reaches text NOT NULL DEFAULT '' -- the stores that it has reached, separated by commas
) WITH (fillfactor = 50);

-- The partitions that were moved to a node by hand, and stay there as long as it is one.
CREATE TABLE {schema}.pins (
	partition int PRIMARY KEY,
	node      text NOT NULL REFERENCES {schema}.nodes ON DELETE CASCADE
);

-- Other databases that keep some of the partitions. Only the first database, whose address all processes have, has rows here.
CREATE TABLE {schema}.stores (
	name    text PRIMARY KEY,
	address text NOT NULL, -- without a password
	since   timestamptz NOT NULL
);
-- Where a partition is kept, and where it should be. A partition without a row is in the first database, and stays.
CREATE TABLE {schema}.placements (
	partition int PRIMARY KEY,
	store     text NOT NULL, -- empty: the first database
	target    text           -- NULL: it stays
);

-- Code that knows this version of the schema, or a newer one, may use it. A migration that older code cannot live
-- with raises it.
INSERT INTO {schema}.meta VALUES ('oldest', '1');
INSERT INTO {schema}.meta VALUES ('partitions', '{partitions}');
INSERT INTO {schema}.meta VALUES ('database', '{database}');

-- For people: instants as instants, phases by their names.
CREATE VIEW {schema}.runs AS SELECT
	id,
	workflow,
	coalesce(workflow_id, id::text) AS workflow_id,
	{runPhase phase} AS phase,
	{instant created_at} AS created_at,
	{instant ended_at} AS ended_at,
	{instant deadline} AS deadline,
	CASE WHEN wake IN (1, 2) THEN '-infinity'::timestamptz ELSE {instant wake} END AS wake, -- -infinity: at once
	message,
	key,
	parent,
	definition,
	partition,
	applied,
	labels
FROM {schema}.runs_data;

-- All steps: those with rows of their own, and those in the rows of their runs. Instants there count from the run's.
CREATE VIEW {schema}.step_rows AS
SELECT run, step, name, kind, phase, reason, attempt, scheduled_at, ended_at, next_at, deadline, message
FROM {schema}.steps_data
UNION ALL
SELECT
	r.id,
	(j.s->>0)::int,
	j.s->>1,
	(j.s->>2)::smallint,
	(j.s->>3)::smallint,
	(j.s->>4)::smallint,
	(j.s->>5)::int,
	CASE j.s->>6 WHEN '0' THEN 0 ELSE r.created_at + (j.s->>6)::bigint - 1 END,
	CASE j.s->>7 WHEN '0' THEN 0 ELSE r.created_at + (j.s->>7)::bigint - 1 END,
	CASE j.s->>8 WHEN '0' THEN 0 ELSE r.created_at + (j.s->>8)::bigint - 1 END,
	CASE j.s->>9 WHEN '0' THEN 0 ELSE r.created_at + (j.s->>9)::bigint - 1 END,
	j.s->>10
FROM {schema}.runs_data r CROSS JOIN LATERAL json_array_elements(r.steps::json) AS j (s)
WHERE r.steps IS NOT NULL
	AND NOT EXISTS (SELECT 1 FROM {schema}.steps_data o WHERE o.run = r.id AND o.step = (j.s->>0)::int);

CREATE VIEW {schema}.steps AS SELECT
	run,
	step,
	name,
	{stepKind kind} AS kind,
	{stepPhase phase} AS phase,
	nullif({reason reason}, '') AS reason,
	attempt,
	{instant scheduled_at} AS scheduled_at,
	{instant ended_at} AS ended_at,
	{instant next_at} AS next_at,
	{instant deadline} AS deadline,
	message
FROM {schema}.step_rows;

CREATE VIEW {schema}.attempts AS SELECT
	a.run,
	a.step,
	s.name,
	a.attempt,
	a.outcome,
	nullif({limit a."limit"}, '') AS "limit",
	{instant a.ready_at} AS ready_at,
	{instant a.started_at} AS started_at,
	{instant a.ended_at} AS ended_at,
	(nullif(a.ended_at, 0) - a.started_at) / 1e6 AS seconds,
	a.worker,
	a.message
FROM {schema}.attempts_data a LEFT JOIN {schema}.step_rows s ON s.run = a.run AND s.step = a.step;
