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
	message     text
);
CREATE INDEX runs_wake ON {schema}.runs_data (partition, wake, id) WHERE wake > 0;
CREATE INDEX runs_ended ON {schema}.runs_data (partition, ended_at, id) WHERE ended_at > 0;
-- Names may be longer than an entry of an index can be.
CREATE INDEX runs_workflow_id ON {schema}.runs_data (left(workflow_id, 200), id) WHERE workflow_id IS NOT NULL;
CREATE INDEX runs_key ON {schema}.runs_data (left(key, 200), id) WHERE key IS NOT NULL;

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

-- Code that knows this version of the schema, or a newer one, may use it. A migration that older code cannot live
-- with raises it.
INSERT INTO {schema}.meta VALUES ('oldest', '1');
INSERT INTO {schema}.meta VALUES ('partitions', '{partitions}');
