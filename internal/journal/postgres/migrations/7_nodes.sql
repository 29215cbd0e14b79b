-- The processes that share the partitions. The clock of all instants is the database's.
CREATE TABLE {schema}.nodes (
	id      text PRIMARY KEY,
	address text NOT NULL,    -- where the others reach it
	version text NOT NULL,
	secret  text NOT NULL,    -- a fingerprint of the cluster's secret
	since   timestamptz NOT NULL,
	beat    timestamptz NOT NULL, -- the last sign of life
	term    bigint NOT NULL,  -- microseconds from a sign of life until the node counts as dead
	leaving boolean NOT NULL  -- it gives back what it owns
) WITH (fillfactor = 50);
