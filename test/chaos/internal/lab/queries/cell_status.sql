select coalesce((select q.status from pgdispatch.workflow_execution_queue q where q.execution_id = $1::text::uuid), '')
