-- The items that failed last, newest first.
select q.id, w.name, q.last_error
from pgdispatch.workflow_execution_queue q
join pgdispatch.workspaces w on w.id = q.workspace_id
where q.status = 'FAILED'
order by q.finished_at desc, q.id desc
limit $1
