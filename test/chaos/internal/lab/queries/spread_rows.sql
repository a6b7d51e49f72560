-- $1 workspaces, whose IDs are also those of their definitions, $2 executions.
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, execution_id, params)
select w, w, e, '{"ms": 0}' from unnest($1::uuid[], $2::uuid[]) as t (w, e)
