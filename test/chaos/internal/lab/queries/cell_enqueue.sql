-- $1 workspace, $2 definition, $3 execution, $4 delay until it is due, $5 limit key. Without a delay it is due when the
-- default says so.
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, execution_id, params, run_at, limit_key)
values ($1::text::uuid, $2::text::uuid, $3::text::uuid, '{"ms": 0}', now() + $4::interval, $5::text)
