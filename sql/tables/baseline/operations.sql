-- Dead letters have tables and indexes of their own, beside the queue: an item that succeeds pays for none of it.

-- One row per counted failure, written with the count. Only bring_back changes it. No foreign key to the queue, because its check
-- would run at every update there.
create table pgdispatch.item_failures (
    item_id   bigint not null,
    -- The item's failure_count including this failure. The bound is that of max_attempts, so an item has at most 100
    -- rows.
    failure   integer not null check (failure between 1 and 100),
    attempt   integer not null,
    failed_at timestamptz not null default clock_timestamp(),
    error     text not null,
    replica   text,
    primary key (item_id, failure)
);

-- Items that cannot be claimed or requeued because of a user's trigger or constraint. They are skipped until try_at.
create table pgdispatch.parked_items (
    item_id   bigint primary key,
    error     text not null,
    tries     integer not null default 1,
    -- The item's attempt_count when it was parked. Once it is higher, the item is no longer parked.
    attempts  integer not null,
    parked_at timestamptz not null default clock_timestamp(),
    try_at    timestamptz not null
);

-- Handled dead letters. A dead letter without a row here is open.
create table pgdispatch.dead_letter_marks (
    item_id   bigint primary key,
    mark      text not null check (mark in ('REPLAYED', 'DISCARDED')),
    marked_at timestamptz not null default clock_timestamp(),
    marked_by text not null check (length(marked_by) between 1 and 200 and marked_by !~ '[[:cntrl:]]'),
    -- The newest item that replays it. A replay that was CANCELLED leaves its dead letter open.
    replay_id bigint unique,
    constraint only_a_replayed_one_names_its_replay check ((mark = 'REPLAYED') = (replay_id is not null))
);

-- How far the deletion has come. The transaction that holds the row's lock deletes.
create table pgdispatch.retention_walk (
    singleton    boolean primary key default true check (singleton),
    -- Items up to this ID were looked at in this pass.
    after_id     bigint not null default 0,
    next_pass_at timestamptz not null default '-infinity'
)
with (fillfactor = 50);

insert into pgdispatch.retention_walk default values;

-- Changes made by hand. A statement that changes something writes its row here too, so neither exists without the
-- other. Only `pgdispatch audit list` reads it, and nothing deletes from it.
create table pgdispatch.admin_log (
    id      bigint generated always as identity primary key,
    at      timestamptz not null default clock_timestamp(),
    -- Who made the change, as stated, and the Postgres role that did.
    who     text not null check (length(who) between 1 and 200 and who !~ '[[:cntrl:]]'),
    role    text not null default session_user,
    -- The command, such as 'workspaces set-plan', and its subject, such as 'workspace' and its ID.
    action  text not null,
    subject text not null,
    -- For a change: {"column": [before, after]}. Otherwise what was affected.
    details jsonb not null default '{}'
);

-- Requests to stop what runs. A request is durable: the first replica to take it carries it out, and repeats it until
-- Temporal has accepted it. It frees no slot; the workflow's end does.
create table pgdispatch.stop_requests (
    execution_id uuid primary key,
    how          text not null check (how in ('CANCEL', 'TERMINATE')),
    reason       text not null,
    requested_by text not null,
    requested_at timestamptz not null default clock_timestamp(),
    -- SENT: Temporal has accepted it. ENDED: the workflow had already ended. WITHDRAWN: its item had not been started.
    state        text not null default 'OPEN' check (state in ('OPEN', 'SENT', 'ENDED', 'WITHDRAWN')),
    settled_at   timestamptz,
    tries        integer not null default 0,
    next_try_at  timestamptz not null default clock_timestamp(),
    -- Temporal's error at the last try. Null means that it was not asked, or has accepted the request.
    error        text,
    constraint an_open_one_is_not_settled check ((state = 'OPEN') = (settled_at is null))
);

create index stop_requests_open on pgdispatch.stop_requests (next_try_at) where state = 'OPEN';

-- What runs and does not progress, as the last look found it. The replicas take turns to look.
create table pgdispatch.stalls (
    -- TASK_QUEUE: no worker polls it. EXECUTION: its workflow task fails again and again.
    kind       text not null check (kind in ('TASK_QUEUE', 'EXECUTION')),
    -- Of Temporal; '' means the one that the replicas are given.
    namespace  text not null,
    name       text not null,
    -- How many executions are affected.
    executions integer not null,
    detail     text not null,
    since      timestamptz not null default clock_timestamp(),
    primary key (kind, namespace, name)
);

create table pgdispatch.stall_look (
    singleton boolean primary key default true check (singleton),
    looked_at timestamptz not null default '-infinity',
    -- Executions up to this one were asked about in this round.
    after_id  uuid not null default '00000000-0000-0000-0000-000000000000'
)
with (fillfactor = 50);

insert into pgdispatch.stall_look default values;

-- The key for the tokens of completion callbacks, by which Temporal itself reports a workflow's end. It is stored here
-- so that all replicas share it and nobody has to distribute it. Random by gen_random_uuid, the only source in Postgres
-- without an extension; two UUIDs have 244 random bits.
create table pgdispatch.callback_key (
    singleton boolean primary key default true check (singleton),
    key       bytea not null default decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex')
                  check (length(key) >= 32)
);

insert into pgdispatch.callback_key default values;

-- What the replicas did, one row per minute, of the last day. For display only: no decision depends on it.
create table pgdispatch.activity (
    minute    timestamptz primary key,
    started   bigint not null default 0,
    completed bigint not null default 0,
    failed    bigint not null default 0,
    cancelled bigint not null default 0,
    -- At one moment of the minute, as queue_depth counts: estimates beyond 10,000. Null means that no sweep ran in it.
    waiting   bigint,
    claimed   bigint,
    running   bigint,
    -- Histogram of how long the started items had waited: element n ends at 2^((n-1)/4)/8 ms.
    waits     bigint[] not null default '{}',
    -- The same of how long they had been startable.
    startable_waits bigint[] not null default '{}'
)
with (fillfactor = 50);

-- What was started and ended in a workspace, by five minutes, for a day. The time comes first in the key: rows are added
-- at one end of the index and deleted at the other, and a workspace is read by one index step for each five minutes.
create table pgdispatch.workspace_activity (
    at           timestamptz not null,
    workspace_id uuid not null,
    -- How long the started items had been due, in ms: the sum, and the longest.
    waited       bigint not null default 0,
    longest      bigint not null default 0,
    started      integer not null default 0,
    completed    integer not null default 0,
    failed       integer not null default 0,
    cancelled    integer not null default 0,
    primary key (at, workspace_id)
)
with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
