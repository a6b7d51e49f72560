-- What holds data, and what describes it: the tables with their indexes, sequences, types and first rows, and the
-- views. Functions and triggers are not part of it: `pgdispatch migrate up` replaces those that changed, from
-- the functions and sql/schema/triggers.sql.
-- Applications write the five tables after applied_functions; everything below them is pgdispatch's own.
-- Every time in a row is the database's: no replica's clock is ever compared with one.

-- A generated column and constraints call these.
{{ template "function item_stage" . }}
{{ template "function start_option_size" . }}
{{ template "function check_start_option_groups" . }}
{{ template "function check_start_options" . }}
{{ template "function check_rates" . }}

-- The function files that `pgdispatch migrate up` has applied, with the hash of each.
create table pgdispatch.applied_functions (
    name       text primary key,
    sha256     text not null,
    applied_at timestamptz not null default clock_timestamp()
);

create table pgdispatch.workspace_tiers (
    plan                     text primary key check (plan ~ '^[A-Z][A-Z0-9_]{0,62}$'),
    max_concurrent_workflows integer not null check (max_concurrent_workflows between 0 and 100000),
    -- How many items of a workspace may hold slots while no other workspace needs the workers. Null means none beyond
    -- the limit. A value below the limit changes nothing.
    max_burst_workflows      integer check (max_burst_workflows between 0 and 100000)
);

insert into pgdispatch.workspace_tiers (plan, max_concurrent_workflows)
values ('FREE', 1), ('PRO', 5), ('ENTERPRISE', 20);

create table pgdispatch.workspaces (
    id                       uuid primary key default gen_random_uuid(),
    name                     text not null check (length(name) between 1 and 200 and name !~ '[[:cntrl:]]'),
    plan                     text not null default 'FREE' references pgdispatch.workspace_tiers (plan),
    -- Null means the plan's limit. 0 is a limit like any other and starts nothing.
    max_concurrent_workflows integer check (max_concurrent_workflows between 0 and 100000),
    -- Null means the plan's.
    max_burst_workflows      integer check (max_burst_workflows between 0 and 100000),
    -- Null means no limit. An idle workspace may start one second's worth at once, and always one.
    max_starts_per_second    double precision check (max_starts_per_second between 0.0001 and 100000),
    paused                   boolean not null default false,
    -- The workspace's name in notifications: a number of its own, because any role may listen to them.
    wake_number              bigint not null default ('x' || substr(replace(gen_random_uuid()::text, '-', ''), 1, 15))::bit(60)::bigint,
    created_at               timestamptz not null default now()
);

create index workspaces_by_plan on pgdispatch.workspaces (plan);
-- For lists by name, page by page.
create index workspaces_by_name on pgdispatch.workspaces (name collate "C", id);

-- The workspaces that a login may use while workspaces are isolated: see own_workspaces(). By the role's OID,
-- so that a role that is created later under the same name gets nothing.
create table pgdispatch.workspace_roles (
    role         regrole not null,
    -- Null means any that the session names.
    workspace_id uuid references pgdispatch.workspaces (id) on delete cascade,
    unique (role, workspace_id)
);

create index workspace_roles_by_workspace on pgdispatch.workspace_roles (workspace_id);

create table pgdispatch.workflow_definitions (
    id                uuid primary key default gen_random_uuid(),
    workspace_id      uuid not null references pgdispatch.workspaces (id) on delete cascade,
    name              text not null check (length(name) between 1 and 200 and name !~ '[[:cntrl:]]'),
    -- Temporal accepts IDs of up to 1,000 bytes; control characters would only ever be an accident or an attack.
    workflow_type     text not null check (octet_length(workflow_type) between 1 and 1000 and workflow_type !~ '[[:cntrl:]]'),
    task_queue        text not null check (octet_length(task_queue) between 1 and 1000 and task_queue !~ '[[:cntrl:]]'),
    -- Where its workflows are started. Null means the namespace that the replicas are given.
    namespace         text check (octet_length(namespace) between 1 and 1000 and namespace !~ '[[:cntrl:]]'),
    max_attempts      integer not null default 3 check (max_attempts between 1 and 100),
    execution_timeout interval check (execution_timeout between interval '1 second' and interval '10 years'),
    -- How Temporal is to start its workflows, beyond type and input: see docs/enqueue.md. An item's fields replace these.
    start_options     jsonb check (pgdispatch.check_start_options(start_options, null, false)),
    created_at        timestamptz not null default now(),
    unique (workspace_id, name)
);

create index workflow_definitions_by_namespace on pgdispatch.workflow_definitions (namespace);

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
        -- Strict, because lax would look into a node or an id that is an array. Silent, because the constraint above
        -- reports a graph without nodes.
        check (coalesce(not jsonb_path_exists(graph,
            'strict $.nodes[*] ? (@.type() != "object" || (@.id.type() == "string") is unknown || @.id.type() != "string")',
            silent => true), true)),
    constraint "edges of a graph must be an array of {from, to}"
        check (coalesce(jsonb_typeof(graph -> 'edges'), 'array') = 'array'
               and not jsonb_path_exists(graph, 'lax $.edges[*] ? (!exists(@.from) || !exists(@.to))')),
    -- The node IDs are part of the workflow's input, beside params: see the limit on params.
    constraint "node ids of a graph must fit 64 KiB"
        check (octet_length(jsonb_path_query_array(graph, 'lax $.nodes[*].id')::text) <= 65536)
);

-- In this table and the next, the fixed-width columns that every row has come first, then the status. To read a column,
-- Postgres walks over those before it, and claims, settles and every index read these again and again.
create table pgdispatch.workflow_execution_queue (
    id                     bigint generated always as identity primary key,
    -- The workflow ID is 'execution-' || execution_id. It never changes, so Temporal recognises a repeated start. A
    -- UUID of version 7, which rises with time: its indexes grow at one end.
    execution_id           uuid not null default (lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0') || '7'
                                                  || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid unique,
    workspace_id           uuid not null,
    workflow_definition_id uuid not null,
    -- The clock's time, if that was set back since the transaction began.
    run_at                 timestamptz not null default least(now(), clock_timestamp()),
    created_at             timestamptz not null default now(),
    -- The transaction that enqueued the item: claims find new items by it.
    enqueue_xid            xid8 not null default pg_current_xact_id(),
    -- From a sequence, so that no two claims ever share a token.
    lease_token            bigint not null default 0,
    priority               integer not null default 0,
    -- Claims, minus those released unused (shutdown, outage). Waiting for capacity is not a claim.
    attempt_count          integer not null default 0,
    -- The item's own failures. Only these count towards the definition's max_attempts.
    failure_count          integer not null default 0,
    -- Consecutive leases that expired because the holder did not come back. A holder that does resets the count.
    lost_lease_count       integer not null default 0,
    status                 text not null default 'PENDING',
    -- A start was sent and never answered: the workflow may be running, so the item keeps its workspace's slot.
    outcome_unknown        boolean not null default false,
    claimed_at             timestamptz,
    lease_expires_at       timestamptz,
    dispatched_at          timestamptz,
    finished_at            timestamptz,
    claimed_by             text,
    -- The key of limits that apply to it, beside its workspace's: see table limits.
    limit_key              text,
    params                 jsonb not null default '{}',
    idempotency_key        text,
    traceparent            text,
    -- Checked by item_enqueued(), because a constraint would be evaluated at every settle.
    start_options          jsonb,
    last_error             text,
    -- The dead letter that this item replays. Set by pgdispatch.replay after the insert.
    replay_of              bigint,

    -- Client values are checked when they are written: item_enqueued() and refuse_change().
    -- The item's stage, as claims see it: WAITS; HOLDS a slot; in DOUBT, which holds one too; DEAD; null means ended.
    -- An item whose columns do not match its status is rejected. Indexes name the stage and never the status, so a
    -- settle, which changes only the status, is a heap-only update.
    stage                  text generated always as (pgdispatch.item_stage(
        status, outcome_unknown, claimed_by, claimed_at, lease_expires_at, dispatched_at, finished_at, last_error)) stored
)
-- Half of each page is left for the versions that a claim and a settle write.
with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
      autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

create unique index workflow_execution_queue_idempotency
    on pgdispatch.workflow_execution_queue (workspace_id, idempotency_key) where idempotency_key is not null;
-- Some of these hold the same items. The always-true predicate keeps each to its own queries: a plan made while the
-- table is empty sees equal costs, and would later read the wrong index from end to end.
-- What has arrived since a snapshot, one transaction, priority level and limit key at a time: one index step for each.
-- Query with a condition that compares enqueue_xid.
create index workflow_execution_queue_arrivals
    on pgdispatch.workflow_execution_queue (enqueue_xid, workspace_id, priority desc, limit_key, run_at)
    where stage = 'WAITS' and enqueue_xid is not null;
-- A workspace's next items, one priority level and limit key at a time: one index step for each. Nulls are last. Query
-- with a condition on run_at.
create index workflow_execution_queue_waiting
    on pgdispatch.workflow_execution_queue (workspace_id, priority desc, limit_key, run_at, id)
    where stage = 'WAITS' and run_at is not null;
create index workflow_execution_queue_unanswered
    on pgdispatch.workflow_execution_queue (run_at, id) where stage = 'DOUBT';
-- The holders of a workspace's slots, and all holders, by the token that they drew. Query with a condition on
-- workspace_id, or on lease_token. Without lease_expires_at, so that a heartbeat is a heap-only update too.
create index workflow_execution_queue_holders
    on pgdispatch.workflow_execution_queue (workspace_id, lease_token) where stage in ('HOLDS', 'DOUBT') and workspace_id is not null;
create index workflow_execution_queue_key_holders
    on pgdispatch.workflow_execution_queue (limit_key, workspace_id) where stage in ('HOLDS', 'DOUBT') and limit_key is not null;
create index workflow_execution_queue_leased
    on pgdispatch.workflow_execution_queue (lease_token) where stage in ('HOLDS', 'DOUBT') and lease_token is not null;
create index workflow_execution_queue_dead on pgdispatch.workflow_execution_queue (finished_at, id) where stage = 'DEAD';

-- The keys of pgdispatch.enqueue: each with the item that was enqueued last under it. Beside the queue, so that items
-- without a key pay nothing, and so that a key can pass to a new item while the old one runs.
create table pgdispatch.enqueue_keys (
    workspace_id uuid not null,
    key          text not null,
    item_id      bigint not null unique,
    -- When a debounce last set its item's run_at; null if run_at is the application's own. See bring_back().
    debounced_at timestamptz,
    primary key (workspace_id, key)
)
with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- An item draws a token each time it comes to hold a slot. A token fences: an update with an earlier one changes
-- nothing. It also counts: a row's token never falls, so a workspace that has no holder below a token never gets one
-- there. See claim/schedule.
create sequence pgdispatch.lease_tokens;

-- A period in which no commit was lost: a crash or a promotion empties an unlogged table. What was counted in another
-- epoch is counted again. Delete the row, if it exists, when you restore or copy the database.
create unlogged table pgdispatch.epoch (
    singleton boolean primary key default true check (singleton),
    id        uuid not null default gen_random_uuid()
);

create table pgdispatch.workflow_executions (
    id                             uuid primary key,
    workspace_id                   uuid not null,
    workflow_definition_id         uuid not null,
    workflow_definition_version_id uuid not null,
    queue_item_id                  bigint not null,
    created_at                     timestamptz not null default now(),
    status                         text not null default 'STARTING',
    -- When it was claimed for the first start that may have been carried out. Temporal forgets a workflow some time
    -- after its end; once it may have, no start is sent again.
    first_sent_at                  timestamptz,
    started_at                     timestamptz,
    finished_at                    timestamptz,
    -- When Temporal was last asked about this execution in particular. Null means never.
    asked_at                       timestamptz,
    -- The replica that watches for this execution's end. The watch lasts as long as the replica's row in replicas.
    watcher                        text,
    -- Where its workflow is, whatever its definition says since. Null means the namespace that the replicas are given.
    namespace                      text,
    run_id                         text,
    error                          text,
    -- How the workflow ended, if that was reported before its start was settled. Null means that it was not.
    early_outcome                  text,
    early_reason                   text,
    -- What the completed workflow returned, bounded by settings.result_bytes.
    result                         jsonb,
    -- Why there is no result although there was one: it was too large, encrypted, or not JSON.
    result_note                    text,
    constraint a_status_has_what_belongs_to_it check (case
        when status in ('STARTING', 'RUNNING') then finished_at is null and (status = 'STARTING' or started_at is not null)
        else finished_at is not null and status in ('COMPLETED', 'FAILED', 'CANCELED', 'TERMINATED', 'TIMED_OUT') end)
)
with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- Without status, so that STARTING -> RUNNING is a heap-only update.
create index workflow_executions_watched on pgdispatch.workflow_executions (watcher, created_at) where finished_at is null;

create table pgdispatch.settings (
    singleton  boolean primary key default true check (singleton),
    -- W: how many items may be leased at once, over all replicas.
    max_claims integer not null default 100 check (max_claims between 0 and 100000),
    -- If true, nothing is claimed; claimed items are still handed over.
    paused     boolean not null default false,
    -- An item that has been due for longer takes part in every tenth turn, regardless of its priority.
    priority_aging interval not null default '1 minute' check (priority_aging between '0' and '100 years'),
    -- How long a finished item is kept. Null means forever.
    retention interval check (retention between interval '1 minute' and interval '100 years'),
    -- How long an open dead letter is kept. Null means until it is handled, and then for retention.
    dead_letter_retention interval check (dead_letter_retention between interval '1 minute' and interval '100 years'),
    -- The largest result that is kept, in bytes as text. A longer one is omitted, not cut. 0 keeps none.
    result_bytes integer not null default 4096 check (result_bytes between 0 and 65536),
    -- Whether ends are notified on the channel pgdispatch_ended.
    notify_ended boolean not null default false
);

insert into pgdispatch.settings default values;

create table pgdispatch.replicas (
    id         text primary key,
    version    text not null,
    workers    integer not null,
    -- Where it starts workflows whose definition names no namespace.
    namespace  text,
    started_at timestamptz not null default now(),
    renewed_at timestamptz not null default clock_timestamp(),
    expires_at timestamptz not null,
    -- The state of the replica at its last heartbeat: see claim.ReplicaState.
    state      jsonb not null default '{}'
);

-- One replica at a time lists closed workflows: the one that takes the turn.
create table pgdispatch.close_sweep (
    singleton boolean primary key default true check (singleton),
    -- When a turn was last taken.
    looked_at timestamptz not null default '-infinity'
)
with (fillfactor = 50);

insert into pgdispatch.close_sweep default values;

-- How far closed workflows have been listed, per namespace: one that does not answer must not hold up the others.
create table pgdispatch.close_lists (
    namespace text primary key,
    -- The newest close time that was listed, by Temporal's clock. Null means none.
    swept_to  timestamptz,
    -- When a list last reached far back.
    wide_at   timestamptz not null default '-infinity'
)
with (fillfactor = 50);

-- How many starts a workspace's rate allowed, and when: a token bucket. Only claims write it. Without a row, it is
-- full.
create table pgdispatch.rates (
    workspace_id uuid primary key,
    tokens       double precision not null,
    at           timestamptz not null,
    -- The rate that applies since then.
    per_second   double precision not null
)
with (fillfactor = 50);

-- Append-only. A transaction that moves an item, frees a slot or changes a limit adds a mark, and waits for nobody. A
-- mark only says "look" and carries nothing that claims count, so reading it twice does no harm. New items need none.
create table pgdispatch.marks (
    xid        xid8 not null default pg_current_xact_id(),
    -- Null means all.
    workspaces uuid[],
    -- Of the item that waits again; null if none does.
    priority   integer,
    due        timestamptz,
    -- How many items ended. Recorded here, so that concurrent ends do not write the same row.
    completed  integer not null default 0,
    failed     integer not null default 0,
    cancelled  integer not null default 0,
    -- The limit keys of the items that gave their slots back, or of the item that waits again.
    limit_keys text[],
    -- How many items of each of its workspaces ended, in the order of workspaces. Null means that the mark has one
    -- workspace, or that nothing ended.
    completed_of integer[],
    failed_of    integer[]
)
with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
      autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0);

create index marks_by_xid on pgdispatch.marks (xid);

-- What has been done with marks. The transaction that holds the row's lock does it.
create table pgdispatch.mark_trim (
    singleton  boolean primary key default true check (singleton),
    -- Marks of earlier transactions may be gone: a replica that has not seen them all must reload what waits.
    trimmed_to xid8 not null default '0',
    -- The next value of trimmed_to, and from when it applies. No transaction before it was open when it was written.
    next_to    xid8 not null default '0',
    next_at    timestamptz not null default '-infinity',
    -- The ends in the marks that this snapshot sees are in activity.
    counted    pg_snapshot not null default '1:1:',
    -- No CLAIMED item has a lower lease_token: searches for leases begin here. See trim_marks().
    leased_from bigint not null default 0
)
with (fillfactor = 50);

insert into pgdispatch.mark_trim default values;

-- A lock with a privilege. Any role could take an advisory lock, and nobody could claim.
create table pgdispatch.claim_lock ();

-- The wake gate. 1 means that the dispatcher on duty sleeps or is about to, and that transactions that commit work
-- notify it. Any other value means that nobody notifies. A sequence changes outside of transactions, and reading it
-- costs microseconds. Unlogged, because a change of it then costs no commit; after a crash of the server it is as
-- created here.
create unlogged sequence pgdispatch.gate maxvalue 2;

{{ template "tables/baseline/limits.sql" . }}
{{ template "tables/baseline/signals.sql" . }}
{{ template "tables/baseline/operations.sql" . }}
{{ template "tables/baseline/views.sql" . }}

---- create above / drop below ----

-- Everything in the schema except the table of versions. Without cascade: objects that others built on it are named and
-- stay.
do $$
declare
    statement text;
begin
    for statement in
        select format('drop %s %s', d.kind, string_agg(d.name, ', '))
        from (
            select k.place, k.kind, c.oid::regclass::text as name
            from (values ('v', 1, 'view'), ('r', 2, 'table'), ('S', 4, 'sequence'), ('c', 5, 'type')) as k (relkind, place, kind)
            join pg_class c on c.relkind::text = k.relkind
            where c.relnamespace = 'pgdispatch'::regnamespace and c.oid <> 'pgdispatch.schema_migrations'::regclass
              -- an identity's sequence goes with its table
              and not exists (select from pg_depend i where i.classid = 'pg_class'::regclass and i.objid = c.oid and i.deptype = 'i'
                                                        and i.refclassid = 'pg_class'::regclass)
            union all
            select 3, 'function', p.oid::regprocedure::text
            from pg_proc p where p.pronamespace = 'pgdispatch'::regnamespace
        ) d
        group by d.place, d.kind
        order by d.place
    loop
        execute statement;
    end loop;
end;
$$;
