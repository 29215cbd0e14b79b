-- One index by workflow for lists with phases and without: each phase by itself is in order, and there are few of them.
CREATE INDEX runs_named ON {schema}.runs_data (left(workflow, 200), phase, id);
-- Runs that are due at the same microsecond are few, so they are sorted when they are read.
CREATE INDEX runs_due ON {schema}.runs_data (partition, wake) WHERE wake > 0;
DROP INDEX {schema}.runs_workflow, {schema}.runs_workflow_phase, {schema}.runs_wake;
