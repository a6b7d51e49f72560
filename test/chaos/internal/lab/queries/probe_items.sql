-- How many of these executions were dispatched.
select count(*)::integer from pgdispatch.workflow_execution_queue q
where q.execution_id = any ($1::uuid[]) and q.status = 'DISPATCHED'
