{{- /* For claim: the lanes of what has changed since the last one, as they are now, in touched; complete says whether that is all of it. */ -}}
with arrival as (
    select c.workspace_id, c.freed, c.priority, c.run_at from pgdispatch.changed_since(seen) c
), change as (
    select * from arrival where not caught_up
    union all
    (select l.workspace_id, 0, null, null
     from pgdispatch.lanes l
     where l.active < l.slots and not l.paused and l.next_due_at >= due_from and l.next_due_at <= look_until
     order by l.next_due_at limit 1000)
)
select pg_current_snapshot(),
       seen is not null and (select count(*) < 1000 from arrival)
           and coalesce(bool_and(l.at is not null and (n.priorities is null or n.priorities <@ all_levels)), true),
       array_agg(row(l.at, n.workspace_id, greatest(l.active - n.freed, 0),
           coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows, 1), coalesce(w.paused, false),
           w.max_starts_per_second,
           -- What has been saved up, at the rate that held until now.
           case when w.max_starts_per_second is null then 1e9
                else least(greatest(w.max_starts_per_second, 1),
                    pgdispatch.tokens_now(l.starts_per_second, l.tokens, l.tokens_at, start_time)) end,
           h.due_priority, coalesce(h.oldest_due, start_time), l.last_served,
           l.at_capacity and l.active - n.freed >= coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows, 1),
           h.next_due_at)::pgdispatch.lane_now),
       min(h.oldest_due)
into sees, complete, touched, oldest
-- A workspace that is gone keeps one slot, through which its items are failed one after another.
from (
    select c.workspace_id, sum(c.freed) as freed, min(c.run_at) as run_at,
           array_agg(c.priority) filter (where c.priority is not null) as priorities
    from change c group by c.workspace_id
) n
left join lateral (
    select l.ctid as at, l.* from pgdispatch.lanes l where l.workspace_id = n.workspace_id order by l.version desc limit 1
) l on true
left join pgdispatch.workspaces w on w.id = n.workspace_id
left join pgdispatch.workspace_tiers t on t.plan = w.plan
cross join lateral pgdispatch.lane_head(n.workspace_id, start_time, least(l.waiting_from, n.run_at), all_levels, own_namespace, closed) h;
