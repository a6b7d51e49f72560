-- How many items are in which state.
select count(*) filter (where status = 'PENDING') as waiting,
       count(*) filter (where status in ('CLAIMED', 'DISPATCHED')) as running,
       count(*) filter (where status = 'COMPLETED') as completed,
       count(*) filter (where status = 'FAILED') as failed,
       count(*) filter (where status = 'CANCELLED') as cancelled
from pgdispatch.workflow_execution_queue
