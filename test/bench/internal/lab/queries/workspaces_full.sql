-- How many items wait in workspaces named $1, and how many of those workspaces have room for another.
select coalesce(sum(w.waiting), 0)::bigint, count(*) filter (where w.waiting > 0 and w.claimed + w.running < w.max_concurrent_workflows)
from pgdispatch.workspace_statistics w where w.name like $1 || ' %'
