insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params) values ($1, $2, $3) returning execution_id::text
