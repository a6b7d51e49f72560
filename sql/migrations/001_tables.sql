-- The tables. Applications write the first five; everything below them is pgdispatch's own.
-- Every time in a row is the database's: no replica's clock is ever compared with one.

create table pgdispatch.workspace_tiers (
    plan                     text primary key check (plan ~ '^[A-Z][A-Z0-9_]{0,62}$'),
    max_concurrent_workflows integer not null check (max_concurrent_workflows between 0 and 100000)
);

insert into pgdispatch.workspace_tiers (plan, max_concurrent_workflows)
values ('FREE', 1), ('PRO', 5), ('ENTERPRISE', 20);

create table pgdispatch.workspaces (
    id                       uuid primary key default gen_random_uuid(),
    name                     text not null check (length(name) between 1 and 200 and name !~ '[[:cntrl:]]'),
    plan                     text not null default 'FREE' references pgdispatch.workspace_tiers (plan),
    -- null: the plan's. 0 is a limit like any other and starts nothing.
    max_concurrent_workflows integer check (max_concurrent_workflows between 0 and 100000),
    paused                   boolean not null default false,
    created_at               timestamptz not null default now()
);

create index workspaces_by_plan on pgdispatch.workspaces (plan);

create table pgdispatch.workflow_definitions (
    id                uuid primary key default gen_random_uuid(),
    workspace_id      uuid not null references pgdispatch.workspaces (id) on delete cascade,
    name              text not null check (length(name) between 1 and 200 and name !~ '[[:cntrl:]]'),
    -- Temporal takes IDs of up to 1,000 bytes; control characters would only ever be an accident or an attack.
    workflow_type     text not null check (octet_length(workflow_type) between 1 and 1000 and workflow_type !~ '[[:cntrl:]]'),
    task_queue        text not null check (octet_length(task_queue) between 1 and 1000 and task_queue !~ '[[:cntrl:]]'),
    max_attempts      integer not null default 3 check (max_attempts between 1 and 100),
    execution_timeout interval check (execution_timeout between interval '1 second' and interval '10 years'),
    created_at        timestamptz not null default now(),
    unique (workspace_id, name)
);

create table pgdispatch.workflow_definition_versions (
    id                     uuid primary key default gen_random_uuid(),
    workflow_definition_id uuid not null references pgdispatch.workflow_definitions (id) on delete cascade,
    version                integer not null check (version > 0),
    graph                  jsonb not null,
    node_ids               jsonb generated always as (jsonb_path_query_array(graph, 'lax $.nodes[*].id')) stored,
    created_at             timestamptz not null default now(),
    unique (workflow_definition_id, version),
    constraint "graph must be an object with a nodes array"
        check (jsonb_typeof(graph) = 'object' and jsonb_typeof(graph -> 'nodes') is not distinct from 'array'),
    constraint "every node of a graph needs a string id"
        -- Strict, because lax would look into a node or an id that is an array; silent, because the constraint above speaks
        -- where there are no nodes at all.
        check (coalesce(not jsonb_path_exists(graph,
            'strict $.nodes[*] ? (@.type() != "object" || (@.id.type() == "string") is unknown || @.id.type() != "string")',
            silent => true), true)),
    constraint "edges of a graph must be an array of {from, to}"
        check (coalesce(jsonb_typeof(graph -> 'edges'), 'array') = 'array'
               and not jsonb_path_exists(graph, 'lax $.edges[*] ? (!exists(@.from) || !exists(@.to))')),
    -- The node IDs travel in the workflow's input, beside params: see the limit on params.
    constraint "node ids of a graph must fit 64 KiB"
        check (octet_length(jsonb_path_query_array(graph, 'lax $.nodes[*].id')::text) <= 65536)
);

create table pgdispatch.workflow_execution_queue (
    id                     bigint generated always as identity primary key,
    -- The workflow ID is 'execution-' || execution_id. It never changes, so a start that is repeated is recognised.
    execution_id           uuid not null default gen_random_uuid() unique,
    workspace_id           uuid not null,
    workflow_definition_id uuid not null,
    status                 text not null default 'PENDING',
    priority               integer not null default 0 check (priority between -100 and 100),
    run_at                 timestamptz not null default now()
                           check (run_at between timestamptz '2000-01-01 00:00Z' and timestamptz '2200-01-01 00:00Z'),
    params                 jsonb not null default '{}' check (jsonb_typeof(params) = 'object'),
    idempotency_key        text check (length(idempotency_key) between 1 and 200),
    traceparent            text check (traceparent ~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$'),
    -- Claims, less those handed back unused (shutdown, outage). Waiting for capacity is not a claim.
    attempt_count          integer not null default 0 check (attempt_count >= 0),
    -- Failures of the item's own. Only these are held against the definition's max_attempts.
    failure_count          integer not null default 0 check (failure_count >= 0),
    -- Leases in a row that expired under a holder that did not come back. One that did starts the count anew.
    lost_lease_count       integer not null default 0 check (lost_lease_count >= 0),
    last_error             text check (length(last_error) <= 2000),
    created_at             timestamptz not null default now(),
    claimed_by             text,
    claimed_at             timestamptz,
    lease_expires_at       timestamptz,
    lease_token            bigint not null default 0,
    -- A start was sent and never answered: the workflow may be running, so the item keeps its workspace's slot.
    outcome_unknown        boolean not null default false,
    dispatched_at          timestamptz,
    finished_at            timestamptz,
    holds_slot             boolean generated always as
                           (status in ('CLAIMED', 'DISPATCHED') or (status = 'PENDING' and outcome_unknown)) stored,

    constraint status_is_known check (status in ('PENDING', 'CLAIMED', 'DISPATCHED', 'COMPLETED', 'FAILED', 'CANCELLED')),
    constraint only_a_claimed_item_has_a_lease
        check ((status = 'CLAIMED') = (claimed_by is not null) and (status = 'CLAIMED') = (lease_expires_at is not null)),
    constraint a_claimed_item_says_since_when check (status <> 'CLAIMED' or claimed_at is not null),
    constraint a_pending_item_is_not_claimed check (status <> 'PENDING' or claimed_at is null),
    constraint a_dispatched_item_says_since_when check (status not in ('DISPATCHED', 'COMPLETED') or dispatched_at is not null),
    constraint an_item_not_handed_over_has_no_dispatch_time check (status not in ('PENDING', 'CLAIMED', 'CANCELLED') or dispatched_at is null),
    constraint only_an_ended_item_says_when
        check ((status in ('COMPLETED', 'FAILED', 'CANCELLED')) = (finished_at is not null)),
    constraint a_failed_item_says_why check (status <> 'FAILED' or last_error is not null),
    constraint only_an_open_start_is_unknown check (not outcome_unknown or status in ('PENDING', 'CLAIMED'))
)
with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
      autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

create unique index workflow_execution_queue_idempotency
    on pgdispatch.workflow_execution_queue (workspace_id, idempotency_key) where idempotency_key is not null;
-- The claim reads a lane's head from here, one level of priority at a time: see functions/lane_head.sql.
create index workflow_execution_queue_waiting
    on pgdispatch.workflow_execution_queue (workspace_id, priority desc, run_at, id) where status = 'PENDING' and not outcome_unknown;
create index workflow_execution_queue_unanswered
    on pgdispatch.workflow_execution_queue (run_at, id) where status = 'PENDING' and outcome_unknown;
-- Without lease_expires_at, so that a heartbeat is a heap-only update.
create index workflow_execution_queue_claimed
    on pgdispatch.workflow_execution_queue (id) where status = 'CLAIMED';
create index workflow_execution_queue_slots
    on pgdispatch.workflow_execution_queue (workspace_id) where holds_slot;

create table pgdispatch.workflow_executions (
    id                             uuid primary key,
    queue_item_id                  bigint not null,
    workspace_id                   uuid not null,
    workflow_definition_id         uuid not null,
    workflow_definition_version_id uuid not null,
    workflow_id                    text generated always as ('execution-' || id::text) stored,
    run_id                         text,
    status                         text not null default 'STARTING',
    error                          text check (length(error) <= 2000),
    created_at                     timestamptz not null default now(),
    started_at                     timestamptz,
    finished_at                    timestamptz,
    -- The replica that waits for this execution's end; its claim on it lives as long as its row in replicas.
    watcher                        text,
    constraint status_is_known
        check (status in ('STARTING', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELED', 'TERMINATED', 'TIMED_OUT')),
    constraint a_running_execution_has_started check (status <> 'RUNNING' or started_at is not null),
    constraint only_an_ended_execution_says_when check ((status in ('STARTING', 'RUNNING')) = (finished_at is null))
)
with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

create index workflow_executions_running on pgdispatch.workflow_executions (started_at, id) where status = 'RUNNING';

create table pgdispatch.settings (
    singleton  boolean primary key default true check (singleton),
    -- W: how many items may be leased at once, over all replicas.
    max_claims integer not null default 100 check (max_claims between 0 and 100000),
    -- true: nothing is claimed until it is false again; what was claimed is still handed over.
    paused     boolean not null default false
);

insert into pgdispatch.settings default values;

create table pgdispatch.replicas (
    id         text primary key,
    version    text not null,
    workers    integer not null,
    started_at timestamptz not null default now(),
    expires_at timestamptz not null
);

-- One row per workspace that has or had work. Its only writer is the transaction that holds claim_lock.
create table pgdispatch.lanes (
    workspace_id   uuid primary key,
    active         integer not null default 0 check (active >= 0),
    slots          integer not null default 0,
    paused         boolean not null default false,
    -- The highest priority among the items that are due; null: none is.
    ready_priority integer,
    -- When an item that is not due yet would change ready_priority; null: none will.
    next_due_at    timestamptz,
    last_served    bigint not null default 0,
    -- A claim has said that this workspace is full and has more waiting.
    at_capacity    boolean not null default false,
    open           boolean generated always as (active < slots and not paused) stored
)
with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

create index lanes_ready on pgdispatch.lanes (ready_priority desc, last_served, workspace_id) where open and ready_priority is not null;
create index lanes_due on pgdispatch.lanes (next_due_at) where open and next_due_at is not null;

create sequence pgdispatch.lane_turn;

-- Append-only: whoever enqueues or frees a slot says so here, in its own transaction, and waits for nobody.
-- The claim folds what it can see into lanes and deletes it.
create table pgdispatch.lane_hints (
    workspace_id uuid not null,
    freed        integer not null default 0
)
with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
      autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0);

-- A lock with a privilege. An advisory lock could be taken by any role at all, and then nobody would claim.
create table pgdispatch.claim_lock ();

---- create above / drop below ----

drop table pgdispatch.claim_lock, pgdispatch.lane_hints, pgdispatch.lanes, pgdispatch.replicas, pgdispatch.settings,
    pgdispatch.workflow_executions, pgdispatch.workflow_execution_queue, pgdispatch.workflow_definition_versions,
    pgdispatch.workflow_definitions, pgdispatch.workspaces, pgdispatch.workspace_tiers;
drop sequence pgdispatch.lane_turn;
