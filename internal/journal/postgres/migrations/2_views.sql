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
	applied
FROM {schema}.runs_data;

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
FROM {schema}.steps_data;

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
FROM {schema}.attempts_data a LEFT JOIN {schema}.steps_data s ON s.run = a.run AND s.step = a.step;
