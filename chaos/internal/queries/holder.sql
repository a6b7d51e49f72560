-- The process ID of the replica that holds an item, and how the item stands.
select coalesce((regexp_match(q.claimed_by, '_(\d+)_[^_]*$'))[1], ''), q.status
from pgdispatch.workflow_execution_queue q
where q.execution_id = $1::uuid
