insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params, limit_key) values ($1, $2, $3, 'free-' || floor(1000 * random())) returning execution_id::text
