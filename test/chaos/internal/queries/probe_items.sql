-- Of these executions: how many were handed over.
select count(*)::integer from pgdispatch.workflow_execution_queue q
where q.execution_id = any ($1::uuid[]) and q.status = 'DISPATCHED'
