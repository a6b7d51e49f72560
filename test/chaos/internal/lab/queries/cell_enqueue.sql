-- $1 workspace, $2 definition, $3 execution, $4 limit key or null, $5 ID or null
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, execution_id, params, limit_key, workflow_id)
values ($1::text::uuid, $2::text::uuid, $3::text::uuid, '{"ms": 0}', $4::text, $5::text)
