-- What a store holds; in this text the schema is `@`. Identifiers are compared byte for byte. Every key begins with the
-- project, so that the tables can be distributed by it.
CREATE TABLE @.ledger (
    application text NOT NULL,
    version integer NOT NULL
);
INSERT INTO @.ledger (application, version) VALUES ('runledger', 1);

-- Times are microseconds since 1970. Texts that may hold NUL are bytes of UTF-8. Of the large values only is here which
-- there are (`held`). Room is left in the pages, so that a heartbeat stays in its page and writes no index.
CREATE TABLE @.run (
    project text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    status smallint NOT NULL,
    attempt bigint NOT NULL,
    queued_at bigint,
    started_at bigint NOT NULL,
    waiting_since bigint,
    finished_at bigint,
    principal_type text COLLATE "C" NOT NULL,
    principal_id text COLLATE "C" NOT NULL,
    token text COLLATE "C",
    lease_ends_at bigint,
    lease_bucket bigint,
    error bytea,
    held smallint NOT NULL,
    checksum bigint NOT NULL,
    CONSTRAINT run_by_id PRIMARY KEY (project, id)
) WITH (fillfactor = 80);
CREATE INDEX run_by_status ON @.run (project, status, started_at, id);
CREATE INDEX run_by_workflow ON @.run (project, workflow, status, started_at, id);
CREATE INDEX run_by_end ON @.run (project, finished_at, id) WHERE finished_at IS NOT NULL;
CREATE INDEX run_by_lease ON @.run (lease_bucket, project) WHERE lease_bucket IS NOT NULL;

CREATE TABLE @.node_run (
    project text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    run text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    node_index bigint NOT NULL,
    node_type text COLLATE "C" NOT NULL,
    node_id text COLLATE "C" NOT NULL,
    node_key text COLLATE "C" NOT NULL,
    status smallint NOT NULL,
    started_at bigint NOT NULL,
    waiting_since bigint,
    finished_at bigint,
    error bytea,
    held smallint NOT NULL,
    checksum bigint NOT NULL,
    CONSTRAINT node_run_by_id PRIMARY KEY (project, id)
) WITH (fillfactor = 80);
CREATE INDEX node_run_by_run ON @.node_run (project, run, started_at, node_index, id);
CREATE INDEX node_run_by_project ON @.node_run (project, started_at, node_index, id);

CREATE TABLE @.agent_run (
    project text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    status smallint NOT NULL,
    attempt bigint NOT NULL,
    created_at bigint NOT NULL,
    started_at bigint,
    completed_at bigint,
    principal_type text COLLATE "C",
    principal_id text COLLATE "C",
    model_id bytea,
    finish_reason bytea,
    token text COLLATE "C",
    lease_ends_at bigint,
    lease_bucket bigint,
    error bytea,
    held smallint NOT NULL,
    checksum bigint NOT NULL,
    CONSTRAINT agent_run_by_id PRIMARY KEY (project, id)
) WITH (fillfactor = 80);
CREATE INDEX agent_run_by_status ON @.agent_run (project, status, created_at, id);
CREATE INDEX agent_run_by_agent ON @.agent_run (project, agent, status, created_at, id);
CREATE INDEX agent_run_by_lease ON @.agent_run (lease_bucket, project) WHERE lease_bucket IS NOT NULL;

-- Payloads as text, kept byte for byte; prompts as bytes, since they may hold NUL. The kind is that of the record:
-- 0 run, 1 node run, 2 agent run.
CREATE TABLE @.large_value (
    project text COLLATE "C" NOT NULL,
    kind smallint NOT NULL,
    id text COLLATE "C" NOT NULL,
    slot smallint NOT NULL,
    checksum bigint NOT NULL,
    json text COLLATE "C",
    prompt bytea,
    CONSTRAINT large_value_by_record PRIMARY KEY (project, kind, id, slot)
);

-- How many records there are: runs (kind 0) by workflow and agent runs (kind 2) by agent, and of the whole project under
-- the empty name. Each handle counts on one of a few shards, so that two of them rarely wait for each other; the sum
-- over the shards is exact, one row alone says nothing.
CREATE TABLE @.counter (
    project text COLLATE "C" NOT NULL,
    kind smallint NOT NULL,
    name text COLLATE "C" NOT NULL,
    status smallint NOT NULL,
    shard smallint NOT NULL,
    n bigint NOT NULL,
    CONSTRAINT counter_by_name PRIMARY KEY (project, kind, name, status, shard)
) WITH (fillfactor = 50);
CREATE INDEX counter_by_project ON @.counter (project) WHERE kind = 0 AND name = '';
