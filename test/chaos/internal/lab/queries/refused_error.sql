-- $1 execution. The error with which it is parked. Null if it is not parked.
select min(p.error) from pgdispatch.parked_items p join pgdispatch.workflow_execution_queue q on q.id = p.item_id where q.execution_id = $1::text::uuid
