-- The partitions that were moved to a node by hand, and stay there as long as it is one.
CREATE TABLE {schema}.pins (
	partition int PRIMARY KEY,
	node      text NOT NULL REFERENCES {schema}.nodes ON DELETE CASCADE
);
