-- One row per workspace: how many items are in which state, and the latency from the moment when an item could start
-- (inserted, due, and a slot of its workspace free) until Temporal had accepted its workflow.
-- With n slots, the k-th start of a workspace needs k - n other items to have ended. That is when its slot was free.
with workspace as (
    select w.id, w.name, w.plan, coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows) as slots
    from pgdispatch.workspaces w
    join pgdispatch.workspace_tiers t using (plan)
), started as (
    select workspace_id, dispatched_at, greatest(created_at, run_at) as ready_at,
           row_number() over (partition by workspace_id order by claimed_at, id) as number
    from pgdispatch.workflow_execution_queue
    where claimed_at is not null
), ended as (
    select workspace_id, finished_at,
           row_number() over (partition by workspace_id order by finished_at, id) as number
    from pgdispatch.workflow_execution_queue
    where claimed_at is not null and finished_at is not null
), pickup as (
    select s.workspace_id,
           extract(epoch from s.dispatched_at - greatest(s.ready_at, e.finished_at))::float8 * 1000 as ms
    from started s
    join workspace w on w.id = s.workspace_id
    left join ended e on e.workspace_id = s.workspace_id and e.number = s.number - w.slots
    where s.dispatched_at is not null
), latency as (
    select workspace_id,
           percentile_cont(0.5) within group (order by ms) as p50,
           percentile_cont(0.99) within group (order by ms) as p99
    from pickup
    group by workspace_id
), item as (
    select workspace_id,
           count(*) filter (where status = 'PENDING') as pending,
           count(*) filter (where status in ('CLAIMED', 'DISPATCHED')) as running,
           count(*) filter (where status = 'COMPLETED') as completed,
           count(*) filter (where status = 'FAILED') as failed,
           count(*) filter (where status = 'CANCELLED') as cancelled
    from pgdispatch.workflow_execution_queue
    group by workspace_id
)
select w.id, w.name, w.plan, w.slots,
       coalesce(i.pending, 0) as pending, coalesce(i.running, 0) as running,
       coalesce(i.completed, 0) as completed, coalesce(i.failed, 0) as failed,
       coalesce(i.cancelled, 0) as cancelled, l.p50, l.p99
from workspace w
left join item i on i.workspace_id = w.id
left join latency l on l.workspace_id = w.id
order by w.slots, w.name
