-- Every workspace with its limit, how its items ended, and the most of them that ever ran at the same time: by a sweep
-- over the ends of their intervals from claim to finish. If one item ends in the same microsecond in which another
-- begins, the end counts first.
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
), peak as (
    select workspace_id, max(running) as running
    from level
    group by workspace_id
), item as (
    select workspace_id,
           count(*) filter (where status = 'COMPLETED') as completed,
           count(*) filter (where status = 'FAILED') as failed
    from pgdispatch.workflow_execution_queue
    group by workspace_id
)
select w.name, w.plan, coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows) as slots,
       coalesce(p.running, 0) as peak, coalesce(i.completed, 0) as completed, coalesce(i.failed, 0) as failed
from pgdispatch.workspaces w
join pgdispatch.workspace_tiers t using (plan)
left join peak p on p.workspace_id = w.id
left join item i on i.workspace_id = w.id
order by slots, w.name
