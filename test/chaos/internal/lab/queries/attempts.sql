select q.attempt_count, coalesce(q.last_error, '') from pgdispatch.workflow_execution_queue q where q.execution_id = $1::uuid
