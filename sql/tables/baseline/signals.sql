-- Signals to workflows. The transaction that sends one inserts its row and locks nothing; replicas deliver it. See
-- next_signals().
create table pgdispatch.signals (
    -- The order of an execution's signals.
    id           bigint generated always as identity primary key,
    -- Temporal drops a repeated request. Not derived from the id: after a restore, ids are used again.
    request_id   uuid not null default gen_random_uuid(),
    execution_id uuid not null,
    name         text not null,
    payload      jsonb,
    sent_at      timestamptz not null default clock_timestamp(),
    sent_by      text not null default session_user,
    -- DELIVERED: Temporal has accepted it. GIVEN_UP: it never will, and error says why.
    state        text not null default 'OPEN' check (state in ('OPEN', 'DELIVERED', 'GIVEN_UP')),
    settled_at   timestamptz,
    -- How often a replica has taken it. A replica that takes it fences those before.
    tries        integer not null default 0,
    -- Infinity: it waits for its workflow's start, or for an earlier signal of its execution.
    next_try_at  timestamptz not null default clock_timestamp(),
    -- The run that it is sent to. It is stored before the request, because Temporal recognises a repeat within one run.
    run_id       text,
    -- Why the last try failed, or why it was given up.
    error        text,
    constraint an_open_one_is_not_settled check ((state = 'OPEN') = (settled_at is null))
)
with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

create index signals_of_execution on pgdispatch.signals (execution_id, id);
create index signals_open on pgdispatch.signals (execution_id, id) where state = 'OPEN';
create index signals_due on pgdispatch.signals (next_try_at, id) where state = 'OPEN';
create index signals_given_up on pgdispatch.signals (settled_at) where state = 'GIVEN_UP';

-- The transaction that holds the row's lock settles and takes signals.
create table pgdispatch.signal_turn (
    singleton boolean primary key default true check (singleton),
    -- When signals that wait were last looked at, and up to which.
    looked_at timestamptz not null default '-infinity',
    after_id  bigint not null default 0
)
with (fillfactor = 50);

insert into pgdispatch.signal_turn default values;
