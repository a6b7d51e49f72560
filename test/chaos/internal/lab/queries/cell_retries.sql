select exists (select from pgdispatch.workflow_execution_queue q where q.execution_id = $1::text::uuid and q.status = 'PENDING' and q.failure_count = 1)
