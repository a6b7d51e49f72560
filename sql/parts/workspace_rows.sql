{{- /* For view_workspaces: the rows of a page. The argument is how many items of a status to count. */ -}}
select w.id::text, w.name, w.plan, l.slots as "limit", w.paused, n.items as waiting, n.claimed, n.running,
       clock_timestamp() - n.oldest_due as oldest_waiting, coalesce(f.items, 0) as failures, p.rank,
       coalesce(u.items, 0) as unanswered, clock_timestamp() - u.since as oldest_unanswered,
       pgdispatch.burst_limit(l.slots, l.burst) as burst
from page p
cross join lateral (select w.* from pgdispatch.workspaces w where w.id = p.id offset 0) w
join pgdispatch.workspace_tiers t on t.plan = w.plan
cross join lateral (
    select coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows) as slots,
           coalesce(w.max_burst_workflows, t.max_burst_workflows) as burst
) l
left join failed f on f.workspace_id = p.id
left join unanswered u on u.workspace_id = p.id
cross join lateral pgdispatch.waiting_of(p.id, {{ . }}::integer) n
