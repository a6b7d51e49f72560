-- How Temporal is to start an item's workflow, beyond its type and input: see docs/enqueue.md. An item's fields replace
-- those of its definition.
{{ template "functions/check_start_options.sql" . }}

alter table pgdispatch.workflow_definitions
    add column start_options jsonb check (pgdispatch.check_start_options(start_options, null, false));

-- Checked by functions/item_enqueued.sql, because a constraint would be evaluated at every settle.
alter table pgdispatch.workflow_execution_queue add column start_options jsonb;

create or replace view pgdispatch.enqueue with (security_barrier) as
select q.id, q.execution_id, q.workspace_id, q.workflow_definition_id, q.status, q.priority, q.run_at, q.params, q.idempotency_key, q.traceparent,
       q.attempt_count, q.last_error, q.created_at, q.claimed_by, q.claimed_at, q.lease_expires_at, q.dispatched_at, q.finished_at, q.start_options
from pgdispatch.workflow_execution_queue q
where q.stage = 'WAITS' and q.enqueue_xid = pg_current_xact_id_if_assigned();

---- create above / drop below ----

drop view pgdispatch.enqueue;
create view pgdispatch.enqueue with (security_barrier) as
select q.id, q.execution_id, q.workspace_id, q.workflow_definition_id, q.status, q.priority, q.run_at, q.params, q.idempotency_key, q.traceparent,
       q.attempt_count, q.last_error, q.created_at, q.claimed_by, q.claimed_at, q.lease_expires_at, q.dispatched_at, q.finished_at
from pgdispatch.workflow_execution_queue q
where q.stage = 'WAITS' and q.enqueue_xid = pg_current_xact_id_if_assigned();
-- The trigger names the column; an older version applies its own.
drop trigger if exists refuse_change on pgdispatch.workflow_execution_queue;
alter table pgdispatch.workflow_execution_queue drop column start_options;
alter table pgdispatch.workflow_definitions drop column start_options;
