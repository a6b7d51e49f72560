-- reads
-- $1 at most. Workspaces with the most items first.
select w.workspace_id::text, w.name, w.plan, w.paused, w.max_concurrent_workflows,
       greatest(w.waiting - coalesce(u.items, 0), 0) as waiting, w.claimed, w.running, coalesce(u.items, 0) as unanswered,
       clock_timestamp() - w.oldest_waiting_since as oldest_waiting
from pgdispatch.workspace_statistics w
left join pgdispatch.unanswered(10000) u on u.workspace_id = w.workspace_id
order by w.waiting + w.claimed + w.running desc, w.name
limit $1
