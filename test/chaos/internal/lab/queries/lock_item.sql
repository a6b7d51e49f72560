-- Locks some pending or claimed items, as a session that reads them with locks for too long does.
select q.id
from pgdispatch.workflow_execution_queue q
where q.status in ('PENDING', 'CLAIMED')
order by q.id
limit 5
for update
