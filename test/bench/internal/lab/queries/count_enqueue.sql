-- One row for each of the first $1 definitions. Null means all definitions.
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
select d.workspace_id, d.id, '{"a": 1}' from pgdispatch.workflow_definitions d order by d.id limit $1
