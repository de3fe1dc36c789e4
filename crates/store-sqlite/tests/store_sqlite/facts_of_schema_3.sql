-- Makes a file with five listed runs one of schema 3, with facts of some of them still pending.
DROP TABLE script_states;
DROP TABLE documents;
DROP TABLE pending_facts;
ALTER TABLE runs RENAME COLUMN recent_history TO tail;
ALTER TABLE current DROP COLUMN checksum;
ALTER TABLE attributes DROP COLUMN checksum;
ALTER TABLE visibility DROP COLUMN checksum;
CREATE TABLE facts (
    position INTEGER PRIMARY KEY,
    run_key INTEGER NOT NULL,
    is_new INTEGER NOT NULL,
    namespace INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    start_time INTEGER NOT NULL,
    status INTEGER NOT NULL,
    execution_time INTEGER NOT NULL,
    workflow_type TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    task_queue TEXT NOT NULL,
    history_length INTEGER,
    history_bytes INTEGER,
    transitions INTEGER,
    parent_workflow_id TEXT,
    parent_run_id TEXT,
    root_workflow_id TEXT,
    root_run_id TEXT,
    activity_attempts INTEGER,
    activity_failure TEXT,
    task_attempts INTEGER,
    task_failure TEXT,
    attributes TEXT
) STRICT;
CREATE TEMP TABLE final AS
    SELECT run_key, 0 AS is_new, namespace, ended, start_time, status, execution_time, workflow_type, workflow_id, run_id,
        task_queue, history_length, history_bytes, transitions, parent_workflow_id, parent_run_id, root_workflow_id,
        root_run_id, activity_attempts, activity_failure, task_attempts, task_failure, attributes
    FROM visibility WHERE run_key > 1;

-- Runs 2 and 4 began and ended while their facts waited.
INSERT INTO facts SELECT NULL, * FROM final WHERE run_key IN (2, 4);
UPDATE facts SET is_new = 1, status = 1, ended = 9223372036854775807, history_length = NULL, attributes = NULL;
INSERT INTO facts SELECT NULL, * FROM final WHERE run_key = 4;
UPDATE facts SET status = 8, attributes = '{"1000":"between"}' WHERE position = 3;
INSERT INTO facts SELECT NULL, * FROM final;
DELETE FROM visibility WHERE run_key IN (2, 4);
DELETE FROM attributes WHERE run_key IN (2, 4);
UPDATE status_counts SET runs = runs - 2 WHERE namespace = 1 AND status = 2;

-- Run 3 was listed while it was open.
UPDATE visibility SET status = 1, ended = 9223372036854775807, history_length = NULL, history_bytes = NULL,
    transitions = NULL, attributes = '{"1000":"before"}' WHERE run_key = 3;
DELETE FROM attributes WHERE run_key = 3;
INSERT INTO attributes SELECT 1 << 32 | 1000, 'before', ended, start_time, run_key FROM visibility WHERE run_key = 3;
UPDATE status_counts SET runs = runs - 1 WHERE namespace = 1 AND status = 2;
INSERT INTO status_counts (namespace, status, runs) VALUES (1, 1, 1) ON CONFLICT DO UPDATE SET runs = runs + 1;
PRAGMA user_version = 3;
