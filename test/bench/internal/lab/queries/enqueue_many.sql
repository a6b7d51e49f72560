-- $1 workspace, $2 definition, $3 number of items, $4 params.
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
select $1::uuid, $2::uuid, $4::jsonb from generate_series(1, $3::integer)
