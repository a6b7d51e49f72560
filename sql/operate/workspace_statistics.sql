-- reads
-- $1 at most. Workspaces with the most items first.
select w.workspace_id::text, w.name, w.plan, w.paused, w.max_concurrent_workflows,
       w.waiting, w.claimed, w.running, clock_timestamp() - w.oldest_waiting_since as oldest_waiting
from pgdispatch.workspace_statistics w
order by w.waiting + w.claimed + w.running desc, w.name
limit $1
