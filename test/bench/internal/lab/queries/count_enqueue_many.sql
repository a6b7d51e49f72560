-- $1 rows for each definition, ordered so that each definition's first row comes first.
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
select d.workspace_id, d.id, '{"a": 1}' from pgdispatch.workflow_definitions d, generate_series(1, $1::integer) n order by n
