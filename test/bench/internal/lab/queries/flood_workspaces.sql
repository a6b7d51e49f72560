-- $1 how the workspaces are named, $2 items of each, $3 params. One transaction.
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
select d.workspace_id, d.id, $3::jsonb
from pgdispatch.workspaces w join pgdispatch.workflow_definitions d on d.workspace_id = w.id cross join generate_series(1, $2::integer)
where w.name like $1 || ' %'
