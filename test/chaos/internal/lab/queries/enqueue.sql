-- $1 workspace, $2 definition, $3 executions, $4 params, $5 priority, $6 delay until it is due.
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, execution_id, params, priority, run_at)
select $1::uuid, $2::uuid, e, $4::jsonb, $5::integer, now() + $6::interval
from unnest($3::uuid[]) as e
