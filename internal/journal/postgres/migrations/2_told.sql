-- The state of a run in words, which a list shows: see journal.RunRow.Told. Code of version 1 leaves it as it is when it
-- replaces a row, and newer code does not read it then.
ALTER TABLE {schema}.runs_data ADD COLUMN told bytea;
