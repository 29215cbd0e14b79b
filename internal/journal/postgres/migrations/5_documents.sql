-- Values beside the runs, such as webhooks and their deliveries. Keys are compared byte by byte.
CREATE TABLE {schema}.documents (
	key   text COLLATE "C" PRIMARY KEY,
	value bytea NOT NULL
);
