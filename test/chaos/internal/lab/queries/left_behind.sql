-- Where there is something of items that were deleted. A start that a claim counts for a limit that is being deleted stays
-- in limit_starts, which harms nobody.
select l.place
from (
    select 'executions' as place from pgdispatch.workflow_executions e
    where not exists (select from pgdispatch.workflow_execution_queue q where q.execution_id = e.id)
    union all
    select 'signals' from pgdispatch.signals s
    where not exists (select from pgdispatch.workflow_execution_queue q where q.execution_id = s.execution_id)
    union all
    select 'stop requests' from pgdispatch.stop_requests s
    where not exists (select from pgdispatch.workflow_execution_queue q where q.execution_id = s.execution_id)
    union all
    select 'failures' from pgdispatch.item_failures f
    where not exists (select from pgdispatch.workflow_execution_queue q where q.id = f.item_id)
    union all
    select 'keys' from pgdispatch.enqueue_keys k
    where not exists (select from pgdispatch.workflow_execution_queue q where q.id = k.item_id)
    union all
    select 'parked items' from pgdispatch.parked_items p
    where not exists (select from pgdispatch.workflow_execution_queue q where q.id = p.item_id)
) l
