-- $1 workspace, $2 definition, $3 items, $4 params. One transaction, at every priority.
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params, priority)
select $1::uuid, $2::uuid, $4::jsonb, n % 201 - 100 from generate_series(1, $3::integer) n
