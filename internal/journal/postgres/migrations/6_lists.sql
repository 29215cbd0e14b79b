-- What lists are read by. Nearly all runs succeed, so those that did are left out where it can be.
CREATE INDEX runs_workflow ON {schema}.runs_data (left(workflow, 200), id);
CREATE INDEX runs_created ON {schema}.runs_data (created_at);
CREATE INDEX runs_phase ON {schema}.runs_data (phase, id) WHERE phase <> 4;
CREATE INDEX runs_workflow_phase ON {schema}.runs_data (left(workflow, 200), phase, id) WHERE phase <> 4;
CREATE INDEX runs_parent ON {schema}.runs_data (parent, id) WHERE parent IS NOT NULL;
CREATE INDEX runs_deadline ON {schema}.runs_data (deadline, id) WHERE ended_at = 0 AND deadline > 0;
CREATE INDEX steps_retrying ON {schema}.steps_data (run) WHERE ended_at = 0 AND (attempt > 1 OR phase = 3);
