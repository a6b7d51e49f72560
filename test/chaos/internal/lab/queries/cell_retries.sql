select exists (select from pgdispatch.workflow_execution_queue q where q.execution_id = $1::text::uuid and q.status = 'PENDING' and q.last_error is not null)
