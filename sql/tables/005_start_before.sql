-- An item that has not been claimed by this time ends as CANCELLED. Null means that it may start at any time.
alter table pgdispatch.workflow_execution_queue add column start_before timestamptz;

-- For cancel_late: the next of these times. Query with a condition on start_before. An item that failed was claimed in time.
create index workflow_execution_queue_start_before
    on pgdispatch.workflow_execution_queue (start_before) where stage = 'WAITS' and start_before is not null and failure_count = 0;

create or replace view pgdispatch.enqueue with (security_barrier) as
select q.id, q.execution_id, q.workspace_id, q.workflow_definition_id, q.status, q.priority, q.run_at, q.params, q.idempotency_key, q.traceparent,
       q.attempt_count, q.last_error, q.created_at, q.claimed_by, q.claimed_at, q.lease_expires_at, q.dispatched_at, q.finished_at, q.start_options,
       q.limit_key, q.start_before
from pgdispatch.workflow_execution_queue q
where q.stage = 'WAITS' and q.enqueue_xid = pg_current_xact_id_if_assigned();

---- create above / drop below ----

drop view pgdispatch.enqueue;
create view pgdispatch.enqueue with (security_barrier) as
select q.id, q.execution_id, q.workspace_id, q.workflow_definition_id, q.status, q.priority, q.run_at, q.params, q.idempotency_key, q.traceparent,
       q.attempt_count, q.last_error, q.created_at, q.claimed_by, q.claimed_at, q.lease_expires_at, q.dispatched_at, q.finished_at, q.start_options,
       q.limit_key
from pgdispatch.workflow_execution_queue q
where q.stage = 'WAITS' and q.enqueue_xid = pg_current_xact_id_if_assigned();

comment on view pgdispatch.enqueue is 'For inserts by clients that name every column: only the columns that a client may set are used.';

create trigger enqueue_item
instead of insert on pgdispatch.enqueue
for each row
execute function pgdispatch.enqueue_item();

create or replace trigger refuse_change
after update of id, execution_id, workspace_id, workflow_definition_id, created_at, enqueue_xid,
    params, priority, run_at, idempotency_key, traceparent, start_options, limit_key
on pgdispatch.workflow_execution_queue
for each row
execute function pgdispatch.refuse_change();

drop index pgdispatch.workflow_execution_queue_start_before;
alter table pgdispatch.workflow_execution_queue drop column start_before;
