-- reads
-- A page of what waits, of at most $5 key queues: of all items or, with $1, of those that this transaction has enqueued; from
-- the first key queue on or after the key queue of workspace $2, priority $3 and limit key $4. A key queue is the items of a workspace,
-- priority and limit key. For each: its first item, whether that is parked, how many of how many slots of the workspace
-- are held (counted as far as needed), its burst limit, and whether the key is at its limit there and over all
-- workspaces. Every row also has the snapshot, the time and the unanswered starts, as in look. If no key queue is left, there
-- is one row with only these.
with level as materialized (
    select l.workspace_id, l.priority, l.limit_key, l.run_at, l.id, row_number() over (partition by l.workspace_id) = 1 as first
    from (
        (select l.* from pgdispatch.waiting_queues($2::text::uuid, $3::integer, $4::text) l where $1::text is null limit $5::integer)
        union all
        (select l.* from pgdispatch.arrived_queues($1::text::xid8, $2::text::uuid, $3::integer, $4::text) l
         where $1::text is not null limit $5::integer)
    ) l
)
select pg_current_snapshot()::text as seen, clock_timestamp() as now,
       d.run_at as unanswered_at, coalesce(d.suspect, false) as suspect, s.priority_aging as aging, s.paused,
       l.workspace_id, l.priority, coalesce(l.limit_key, '') as limit_key, l.run_at, l.id,
       coalesce(max(n.wake_number) over w, 0) as wake_number, max(n.held) over w as held, max(n.slots) over w as slots,
       pgdispatch.burst_limit(max(n.slots) over w, max(n.burst) over w) as burst_limit, bool_or(n.paused) over w as workspace_paused,
       exists (select from pgdispatch.parked_items p where p.item_id = l.id) as parked,
       exists (select from pgdispatch.limits k where k.key = l.limit_key and k.workspace_id = l.workspace_id and k.max_concurrent <= (
           select count(*) from (select from pgdispatch.workflow_execution_queue q where q.limit_key = l.limit_key
               and q.workspace_id = l.workspace_id and q.stage in ('HOLDS', 'DOUBT') limit k.max_concurrent) h)) as own_full,
       exists (select from pgdispatch.limits k where k.key = l.limit_key and k.workspace_id is null and k.max_concurrent <= (
           select count(*) from (select from pgdispatch.workflow_execution_queue q where q.limit_key = l.limit_key
               and q.stage in ('HOLDS', 'DOUBT') limit k.max_concurrent) h)) as all_full
from (select s.priority_aging, s.paused from pgdispatch.settings s limit 1) s
left join lateral (
    select q.run_at, q.lost_lease_count >= 2 as suspect
    from pgdispatch.workflow_execution_queue q
    where q.stage = 'DOUBT' and not exists (select from pgdispatch.workspaces w where w.id = q.workspace_id and w.paused)
    order by q.run_at, q.id limit 1
) d on true
left join level l on true
left join lateral ( -- once for each workspace; with joins disabled, a set would be read for each level
    select w.wake_number, coalesce(w.paused, false) as paused,
           coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows, 1) * (not coalesce(w.paused, false))::integer as slots,
           coalesce(w.max_burst_workflows, t.max_burst_workflows) as burst,
           (select count(*)::integer
            from (select from pgdispatch.workflow_execution_queue q
                  where q.workspace_id = l.workspace_id and q.stage in ('HOLDS', 'DOUBT')
                  limit greatest(coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows, 1),
                                 coalesce(w.max_burst_workflows, t.max_burst_workflows))) h) as held
    from (select) one
    left join pgdispatch.workspaces w on w.id = l.workspace_id
    left join pgdispatch.workspace_tiers t on t.plan = w.plan
    where l.first or l.workspace_id is null
    offset 0
) n on true
window w as (partition by l.workspace_id)
