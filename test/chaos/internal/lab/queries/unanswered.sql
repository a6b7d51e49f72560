-- The number of a workspace's starts that Temporal has not answered.
select count(*)::integer from pgdispatch.workflow_execution_queue q where q.workspace_id = $1::uuid and q.stage = 'DOUBT'
