-- How many items a replica with this process ID holds.
select count(*)::integer
from pgdispatch.workflow_execution_queue q
where q.status = 'CLAIMED' and q.claimed_by like '%\_' || $1::text || '\_%'
