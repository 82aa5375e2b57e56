-- Schema version 1.
--
-- Names that repeat in many rows are kept once, each under a number. The numbers stand for equality alone: they say
-- nothing of order. Their rows also count what they name, by status, and go with the last run (agent run) they count.

CREATE TABLE project (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    queued INTEGER NOT NULL DEFAULT 0,
    running INTEGER NOT NULL DEFAULT 0,
    waiting INTEGER NOT NULL DEFAULT 0,
    succeeded INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    agents_queued INTEGER NOT NULL DEFAULT 0,
    agents_running INTEGER NOT NULL DEFAULT 0,
    agents_waiting INTEGER NOT NULL DEFAULT 0,
    agents_succeeded INTEGER NOT NULL DEFAULT 0,
    agents_failed INTEGER NOT NULL DEFAULT 0,
    agents_cancelled INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX project_by_id ON project (id);

CREATE TABLE workflow (
    key INTEGER PRIMARY KEY,
    project INTEGER NOT NULL,
    id TEXT NOT NULL,
    queued INTEGER NOT NULL DEFAULT 0,
    running INTEGER NOT NULL DEFAULT 0,
    waiting INTEGER NOT NULL DEFAULT 0,
    succeeded INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX workflow_by_id ON workflow (project, id);

CREATE TABLE agent (
    key INTEGER PRIMARY KEY,
    project INTEGER NOT NULL,
    id TEXT NOT NULL,
    queued INTEGER NOT NULL DEFAULT 0,
    running INTEGER NOT NULL DEFAULT 0,
    waiting INTEGER NOT NULL DEFAULT 0,
    succeeded INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX agent_by_id ON agent (project, id);

-- Payloads and prompts. Rows are only ever added at the end, so that a transition never rewrites one; the records
-- have the keys of theirs.
CREATE TABLE large_value (
    key INTEGER PRIMARY KEY,
    checksum INTEGER NOT NULL,
    value BLOB NOT NULL
) STRICT;

-- Times are microseconds since 1970. Texts that may hold NUL are blobs of UTF-8. A workflow belongs to one project, so
-- that an index that begins with the workflow needs no project.
CREATE TABLE run (
    key INTEGER PRIMARY KEY,
    project INTEGER NOT NULL,
    id TEXT NOT NULL,
    workflow INTEGER NOT NULL,
    status INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    queued_at INTEGER,
    started_at INTEGER NOT NULL,
    waiting_since INTEGER,
    finished_at INTEGER,
    principal_type TEXT NOT NULL,
    principal_id TEXT NOT NULL,
    token TEXT,
    lease_ends_at INTEGER,
    lease_bucket INTEGER,
    error BLOB,
    checksum INTEGER NOT NULL,
    input INTEGER,
    output INTEGER,
    source INTEGER
) STRICT;
CREATE UNIQUE INDEX run_by_id ON run (project, id);
CREATE INDEX run_by_status ON run (project, status, started_at, id);
CREATE INDEX run_by_workflow ON run (workflow, status, started_at, id);
CREATE INDEX run_by_end ON run (project, finished_at, id, status, workflow) WHERE finished_at IS NOT NULL;
CREATE INDEX run_by_lease ON run (lease_bucket, project) WHERE lease_bucket IS NOT NULL;

-- The workflow is kept only where it is not that of the run.
CREATE TABLE node_run (
    run INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    node_index INTEGER NOT NULL,
    id TEXT NOT NULL,
    project INTEGER NOT NULL,
    workflow TEXT,
    node_type TEXT NOT NULL,
    node_id TEXT NOT NULL,
    node_key TEXT NOT NULL,
    status INTEGER NOT NULL,
    waiting_since INTEGER,
    finished_at INTEGER,
    error BLOB,
    checksum INTEGER NOT NULL,
    input INTEGER,
    output INTEGER,
    PRIMARY KEY (run, started_at, node_index, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX node_run_by_id ON node_run (project, id);

CREATE TABLE agent_run (
    key INTEGER PRIMARY KEY,
    project INTEGER NOT NULL,
    id TEXT NOT NULL,
    agent INTEGER NOT NULL,
    status INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    completed_at INTEGER,
    principal_type TEXT,
    principal_id TEXT,
    model_id BLOB,
    finish_reason BLOB,
    token TEXT,
    lease_ends_at INTEGER,
    lease_bucket INTEGER,
    error BLOB,
    checksum INTEGER NOT NULL,
    prompt INTEGER,
    usage INTEGER,
    trace INTEGER,
    diagnostics INTEGER
) STRICT;
CREATE UNIQUE INDEX agent_run_by_id ON agent_run (project, id);
CREATE INDEX agent_run_by_status ON agent_run (project, status, created_at, id);
CREATE INDEX agent_run_by_agent ON agent_run (agent, status, created_at, id);
CREATE INDEX agent_run_by_lease ON agent_run (lease_bucket, project) WHERE lease_bucket IS NOT NULL;
