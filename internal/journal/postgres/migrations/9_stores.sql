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
-- The stores that a node has reached, separated by commas.
ALTER TABLE {schema}.nodes ADD COLUMN reaches text NOT NULL DEFAULT '';
