-- The first piece of the history and the steps of a run that was written at once, where they are short. See fold.go.
ALTER TABLE {schema}.runs_data ADD COLUMN piece bytea, ADD COLUMN steps text;

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

CREATE OR REPLACE VIEW {schema}.steps AS SELECT
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

CREATE OR REPLACE VIEW {schema}.attempts AS SELECT
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
