-- Limits by key: how many items with a limit key may run at once, and start in a period, in a workspace or over all
-- workspaces. See docs/enqueue.md.
alter table pgdispatch.workflow_execution_queue add column limit_key text;

-- A key's waiting items are found as a workspace's are: one index step for each. Nulls are last.
drop index pgdispatch.workflow_execution_queue_waiting;
create index workflow_execution_queue_waiting
    on pgdispatch.workflow_execution_queue (workspace_id, priority desc, limit_key, run_at, id)
    where stage = 'WAITS' and run_at is not null;
create index workflow_execution_queue_key_holders
    on pgdispatch.workflow_execution_queue (limit_key, workspace_id) where stage in ('HOLDS', 'DOUBT') and limit_key is not null;

{{ template "functions/check_rates.sql" . }}

create table pgdispatch.limits (
    id             bigint generated always as identity primary key,
    -- Null means over all workspaces.
    workspace_id   uuid references pgdispatch.workspaces (id) on delete cascade,
    key            text not null check (length(key) between 1 and 200),
    -- How many items with the key may run at once. Null means no limit; 0 starts nothing.
    max_concurrent integer check (max_concurrent between 0 and 100000),
    -- In any period of length per[n], at most max_starts[n] items with the key start. Null means no limit.
    max_starts     integer[],
    per            interval[],
    check (pgdispatch.check_rates(max_starts, per))
);

-- Not partial: some queries look for a key in any workspace.
create unique index limits_of_workspaces on pgdispatch.limits (key, workspace_id);
create unique index limits_of_all on pgdispatch.limits (key) where workspace_id is null;
create index limits_by_workspace on pgdispatch.limits (workspace_id);

-- The starts that rates of limits count, in twentieths of a period. Only claims write it. A start counts as if it was
-- at the end of its twentieth, so a period never has more than its limit.
create table pgdispatch.limit_starts (
    limit_id bigint not null,
    per      interval not null,
    until    timestamptz not null,
    items    integer not null,
    primary key (limit_id, per, until)
)
with (fillfactor = 50);

-- The limit keys of the items that gave their slots back, or of the item that waits again.
alter table pgdispatch.marks add column limit_keys text[];

create or replace view pgdispatch.enqueue with (security_barrier) as
select q.id, q.execution_id, q.workspace_id, q.workflow_definition_id, q.status, q.priority, q.run_at, q.params, q.idempotency_key, q.traceparent,
       q.attempt_count, q.last_error, q.created_at, q.claimed_by, q.claimed_at, q.lease_expires_at, q.dispatched_at, q.finished_at, q.start_options,
       q.limit_key
from pgdispatch.workflow_execution_queue q
where q.stage = 'WAITS' and q.enqueue_xid = pg_current_xact_id_if_assigned();

---- create above / drop below ----

drop view pgdispatch.enqueue;
create view pgdispatch.enqueue with (security_barrier) as
select q.id, q.execution_id, q.workspace_id, q.workflow_definition_id, q.status, q.priority, q.run_at, q.params, q.idempotency_key, q.traceparent,
       q.attempt_count, q.last_error, q.created_at, q.claimed_by, q.claimed_at, q.lease_expires_at, q.dispatched_at, q.finished_at, q.start_options
from pgdispatch.workflow_execution_queue q
where q.stage = 'WAITS' and q.enqueue_xid = pg_current_xact_id_if_assigned();
drop table pgdispatch.limit_starts, pgdispatch.limits;
drop index pgdispatch.workflow_execution_queue_waiting, pgdispatch.workflow_execution_queue_key_holders;
create index workflow_execution_queue_waiting
    on pgdispatch.workflow_execution_queue (workspace_id, priority desc, run_at, id)
    where stage = 'WAITS' and run_at is not null;
-- The triggers name the column; an older version applies its own.
drop trigger if exists refuse_change on pgdispatch.workflow_execution_queue;
alter table pgdispatch.workflow_execution_queue drop column limit_key;
alter table pgdispatch.marks drop column limit_keys;
