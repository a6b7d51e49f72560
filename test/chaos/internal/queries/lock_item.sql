-- Holds some items that wait or are claimed, as somebody who looks at them for too long does.
select q.id
from pgdispatch.workflow_execution_queue q
where q.status in ('PENDING', 'CLAIMED')
order by q.id
limit 5
for update
