-- Workflow IDs that items name, instead of 'execution-' || execution_id.
alter table pgdispatch.workflow_execution_queue add column workflow_id text; -- checked as start_options are
alter table pgdispatch.workflow_executions add column workflow_id text; -- the item's
alter table pgdispatch.workflow_definitions
    -- What happens to an item if Temporal has another run under its workflow_id. reject: it fails. reuse: it fails unless
    -- the run has closed. use_existing: it follows the run to its end, or starts its workflow if the run has closed.
    add column workflow_id_policy text not null default 'reject' check (workflow_id_policy in ('reject', 'reuse', 'use_existing'));

-- For signal_workflow().
create index workflow_execution_queue_workflow_ids
    on pgdispatch.workflow_execution_queue (workflow_id, workspace_id, id) where workflow_id is not null and stage in ('WAITS', 'HOLDS', 'DOUBT');
-- For the ends of workflows, and for the order of items that name the same one.
create index workflow_executions_workflow_ids
    on pgdispatch.workflow_executions (workflow_id) where workflow_id is not null and finished_at is null;

create or replace view pgdispatch.enqueue with (security_barrier) as
select q.id, q.execution_id, q.workspace_id, q.workflow_definition_id, q.status, q.priority, q.run_at, q.params, q.idempotency_key, q.traceparent,
       q.attempt_count, q.last_error, q.created_at, q.claimed_by, q.claimed_at, q.lease_expires_at, q.dispatched_at, q.finished_at, q.start_options,
       q.limit_key, q.start_before, q.workflow_id
from pgdispatch.workflow_execution_queue q
where q.stage = 'WAITS' and q.enqueue_xid = pg_current_xact_id_if_assigned();

---- create above / drop below ----

-- They name the column. The next migration up creates them again.
drop trigger refuse_change on pgdispatch.workflow_execution_queue;
drop trigger refuse_item on pgdispatch.workflow_execution_queue;
drop view pgdispatch.enqueue;
create view pgdispatch.enqueue with (security_barrier) as
select q.id, q.execution_id, q.workspace_id, q.workflow_definition_id, q.status, q.priority, q.run_at, q.params, q.idempotency_key, q.traceparent,
       q.attempt_count, q.last_error, q.created_at, q.claimed_by, q.claimed_at, q.lease_expires_at, q.dispatched_at, q.finished_at, q.start_options,
       q.limit_key, q.start_before
from pgdispatch.workflow_execution_queue q
where q.stage = 'WAITS' and q.enqueue_xid = pg_current_xact_id_if_assigned();
delete from pgdispatch.applied_functions where name = 'triggers';
alter table pgdispatch.workflow_execution_queue drop column workflow_id;
alter table pgdispatch.workflow_executions drop column workflow_id;
alter table pgdispatch.workflow_definitions drop column workflow_id_policy;
