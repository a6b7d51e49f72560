-- The state machine and its guards. functions/may_move.sql is the one place that knows which moves there are.
{{ template "functions/may_move.sql" . }}
{{ template "functions/holds_slot.sql" . }}
{{ template "functions/check_values.sql" . }}
{{ template "functions/refuse_change.sql" . }}

create trigger refuse_change
after update of id, execution_id, workspace_id, workflow_definition_id, created_at, enqueue_xid,
    params, priority, run_at, idempotency_key, traceparent
on pgdispatch.workflow_execution_queue
for each row
execute function pgdispatch.refuse_change();

---- create above / drop below ----

drop trigger refuse_change on pgdispatch.workflow_execution_queue;
drop function pgdispatch.refuse_change();
drop function pgdispatch.check_values(jsonb, integer, timestamptz, text, text);
drop function pgdispatch.holds_slot(text, boolean);
drop function pgdispatch.may_move(text, text);
