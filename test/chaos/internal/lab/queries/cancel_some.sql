-- Cancels some waiting items of a workspace, and returns their number.
select count(*) filter (where pgdispatch.cancel(x.execution_id))::integer
from (
    select q.execution_id from pgdispatch.workflow_execution_queue q
    where q.workspace_id = $1::uuid and q.status = 'PENDING'
    limit 500
) x
