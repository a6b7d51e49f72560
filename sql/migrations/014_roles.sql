-- For roles that may not do everything. The roles themselves are made by roles.sql, and what they may do is in grants.sql.

-- For clients that name every column of an insert. It shows what its own transaction has enqueued, so that an object that is read
-- back is there, and nothing else of anybody: it reads as its owner, whom no policy holds.
create view pgdispatch.enqueue with (security_barrier) as
select q.id, q.execution_id, q.workspace_id, q.workflow_definition_id, q.status, q.priority, q.run_at, q.params, q.idempotency_key, q.traceparent,
       q.attempt_count, q.last_error, q.created_at, q.claimed_by, q.claimed_at, q.lease_expires_at, q.dispatched_at, q.finished_at
from pgdispatch.workflow_execution_queue q
where q.status = 'PENDING' and not q.outcome_unknown and q.enqueue_xid = pg_current_xact_id_if_assigned();

comment on view pgdispatch.enqueue is
    'To insert into, for clients that name every column: only a client''s own columns are taken. Shows what this transaction has enqueued.';

{{ template "functions/enqueue_item.sql" . }}
{{ template "functions/isolate_workspaces.sql" . }}

create trigger enqueue_item
instead of insert on pgdispatch.enqueue
for each row
execute function pgdispatch.enqueue_item();

---- create above / drop below ----

select pgdispatch.isolate_workspaces(false);
drop view pgdispatch.enqueue;
drop function pgdispatch.isolate_workspaces(boolean);
drop function pgdispatch.enqueue_item();
