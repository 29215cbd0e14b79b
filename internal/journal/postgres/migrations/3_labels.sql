-- What runs can be searched by: lines "key=value", sorted by key; NULL: none.
ALTER TABLE {schema}.runs_data ADD COLUMN labels text;
CREATE INDEX runs_labels ON {schema}.runs_data USING gin (string_to_array(labels, chr(10))) WHERE labels IS NOT NULL;

CREATE OR REPLACE VIEW {schema}.runs AS SELECT
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
