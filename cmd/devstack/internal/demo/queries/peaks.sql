-- The most items of each workspace that ever ran at the same time, by a sweep over the ends of their intervals from
-- claim to finish. If one item ends in the same microsecond in which another begins, the end counts first.
with edge as (
    select workspace_id, claimed_at as at, 1 as change
    from pgdispatch.workflow_execution_queue
    where claimed_at is not null
    union all
    select workspace_id, finished_at, -1
    from pgdispatch.workflow_execution_queue
    where claimed_at is not null and finished_at is not null
), level as (
    select workspace_id, sum(change) over (partition by workspace_id order by at, change rows unbounded preceding) as running
    from edge
)
select w.id, coalesce(max(l.running), 0) as peak
from pgdispatch.workspaces w
left join level l on l.workspace_id = w.id
group by w.id
