-- The process ID of the replica that holds an item, and the item's state. A replica that claims it after three lost
-- leases only fails it.
select case when q.lost_lease_count < 3 then coalesce((regexp_match(q.claimed_by, '_(\d+)_[^_]*$'))[1], '') else '' end, q.status
from pgdispatch.workflow_execution_queue q
where q.execution_id = $1::uuid
