-- The items held by the replica with this process ID.
select coalesce(array_agg(q.id), '{}')::bigint[]
from pgdispatch.workflow_execution_queue q
where q.status = 'CLAIMED' and q.claimed_by like '%\_' || $1::text || '\_%'
