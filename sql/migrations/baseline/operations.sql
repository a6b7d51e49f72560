-- Dead letters stand beside the queue, in tables and indexes of their own: an item that succeeds pays for none of it.

-- One row per failure that was counted, written with the count and never changed. No foreign key to the queue: its check
-- would run at every update there.
create table pgdispatch.item_failures (
    item_id   bigint not null,
    -- The item's failure_count with this one. The bound is that of max_attempts, so an item has 100 rows at the most.
    failure   integer not null check (failure between 1 and 100),
    attempt   integer not null,
    failed_at timestamptz not null default clock_timestamp(),
    error     text not null,
    replica   text,
    primary key (item_id, failure)
);

-- Dead letters that somebody has seen to. One without a row here is open.
create table pgdispatch.dead_letter_marks (
    item_id   bigint primary key,
    mark      text not null check (mark in ('REPLAYED', 'DISCARDED')),
    marked_at timestamptz not null default clock_timestamp(),
    marked_by text not null check (length(marked_by) between 1 and 200 and marked_by !~ '[[:cntrl:]]'),
    -- The newest item that replays it. A replay that was CANCELLED leaves its dead letter open.
    replay_id bigint unique,
    constraint only_a_replayed_one_names_its_replay check ((mark = 'REPLAYED') = (replay_id is not null))
);

-- How far the deletion has come. Whoever has its row locked is the one that deletes.
create table pgdispatch.retention_walk (
    singleton    boolean primary key default true check (singleton),
    -- Items up to this one were looked at in this pass.
    after_id     bigint not null default 0,
    next_pass_at timestamptz not null default '-infinity'
)
with (fillfactor = 50);

insert into pgdispatch.retention_walk default values;

-- What was changed by hand. A verb that changes something writes its row in the same statement, so neither is there without the other. Nothing reads it but
-- `pgdispatch audit list`, and nothing deletes from it.
create table pgdispatch.admin_log (
    id      bigint generated always as identity primary key,
    at      timestamptz not null default clock_timestamp(),
    -- Who says to have done it, and the role of Postgres that did.
    who     text not null check (length(who) between 1 and 200 and who !~ '[[:cntrl:]]'),
    role    text not null default session_user,
    -- The command, such as 'workspaces set-plan', and what it was done to, such as 'workspace' and its ID.
    action  text not null,
    subject text not null,
    -- Of a change: {"column": [before, after]}. Else what it was done to.
    details jsonb not null default '{}'
);

-- Requests to end what runs. A request is durable: whichever replica is first carries it out, and repeats it until Temporal has
-- taken it. It frees no slot; the workflow's end does.
create table pgdispatch.stop_requests (
    execution_id uuid primary key,
    how          text not null check (how in ('CANCEL', 'TERMINATE')),
    reason       text not null,
    requested_by text not null,
    requested_at timestamptz not null default clock_timestamp(),
    -- SENT: Temporal has taken it. ENDED: the workflow had ended before. WITHDRAWN: its item had not been started.
    state        text not null default 'OPEN' check (state in ('OPEN', 'SENT', 'ENDED', 'WITHDRAWN')),
    settled_at   timestamptz,
    tries        integer not null default 0,
    next_try_at  timestamptz not null default clock_timestamp(),
    -- What Temporal said to the last try; null: it was not asked, or has taken it.
    error        text,
    constraint an_open_one_is_not_settled check ((state = 'OPEN') = (settled_at is null))
);

create index stop_requests_open on pgdispatch.stop_requests (next_try_at) where state = 'OPEN';

-- What runs and does not progress, as a look has found it. The replicas take turns to look.
create table pgdispatch.stalls (
    -- TASK_QUEUE: no worker polls it. EXECUTION: its workflow task fails again and again.
    kind       text not null check (kind in ('TASK_QUEUE', 'EXECUTION')),
    -- Of Temporal; '': the one that the replicas are given.
    namespace  text not null,
    name       text not null,
    -- How many executions it concerns.
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

-- What the tokens of completion callbacks are made with, by which Temporal itself says when a workflow has ended. It is here so that all replicas have the same one, and nobody has to hand it out. Random
-- by gen_random_uuid, which is all that Postgres has without an extension; two of them are 244 bits.
create table pgdispatch.callback_key (
    singleton boolean primary key default true check (singleton),
    key       bytea not null default decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex')
                  check (length(key) >= 32)
);

insert into pgdispatch.callback_key default values;

-- What the replicas did, one row a minute, of the last day: for whoever looks. Nothing is decided by it.
create table pgdispatch.activity (
    minute    timestamptz primary key,
    started   bigint not null default 0,
    completed bigint not null default 0,
    failed    bigint not null default 0,
    cancelled bigint not null default 0,
    -- At one moment of the minute, as queue_depth says: estimates beyond 10,000. Null: nobody swept in it.
    waiting   bigint,
    claimed   bigint,
    running   bigint,
    -- Of those started, how many had waited for how long: the nth is of those of up to 2^((n-1)/4) eighths of a millisecond.
    waits     bigint[] not null default '{}'
)
with (fillfactor = 50);
