-- The state machine and its guards. functions/may_move.sql is the one place that knows which moves there are.
{{ template "functions/may_move.sql" . }}
{{ template "functions/refuse_change.sql" . }}

create trigger refuse_change
before update on pgdispatch.workflow_execution_queue
for each row
when (not pgdispatch.may_move(old.status, new.status)
      or new.id <> old.id
      or new.execution_id <> old.execution_id
      or new.workspace_id <> old.workspace_id
      or new.workflow_definition_id <> old.workflow_definition_id
      or new.created_at <> old.created_at)
execute function pgdispatch.refuse_change();

---- create above / drop below ----

drop trigger refuse_change on pgdispatch.workflow_execution_queue;
drop function pgdispatch.refuse_change();
drop function pgdispatch.may_move(text, text);
