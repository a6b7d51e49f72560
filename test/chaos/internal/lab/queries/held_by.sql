-- The number of items held by the replica with this process ID.
select count(*)::integer
from pgdispatch.workflow_execution_queue q
where q.status = 'CLAIMED' and q.claimed_by like '%\_' || $1::text || '\_%'
