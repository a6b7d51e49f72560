-- Every item with its execution, in its current state.
select q.execution_id::text, q.workspace_id::text, q.status, q.failure_count, q.attempt_count, coalesce(q.last_error, ''),
       concat_ws(' ', e.error, e.result_note, e.result),
       coalesce(e.status, ''), coalesce(e.run_id, '')
from pgdispatch.workflow_execution_queue q
left join pgdispatch.workflow_executions e on e.id = q.execution_id
