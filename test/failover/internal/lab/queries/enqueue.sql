-- $1 workspace, $2 definition, $3 execution
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, execution_id, params)
values ($1::uuid, $2::uuid, $3::uuid, '{}')
