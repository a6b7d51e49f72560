-- reads
-- $1 workspace. Counts at most $2 of its items of each status, and its failures among the newest $3 of the last day, of
-- all workspaces.
select w.id::text, w.name, w.plan, w.max_concurrent_workflows, l.slots as "limit",
       w.max_burst_workflows, pgdispatch.burst_limit(l.slots, l.burst) as burst,
       w.max_starts_per_second, w.paused, n.items as waiting, n.claimed, n.running,
       coalesce(u.items, 0) as unanswered, clock_timestamp() - u.since as oldest_unanswered,
       clock_timestamp() - n.oldest_due as oldest_waiting, w.created_at,
       (select count(*)
        from (select q.workspace_id from pgdispatch.workflow_execution_queue q
              where q.stage = 'DEAD' and q.finished_at > now() - interval '1 day'
              order by q.finished_at desc limit $3::bigint) f
        where f.workspace_id = w.id) as failures
from pgdispatch.workspaces w
join pgdispatch.workspace_tiers t on t.plan = w.plan
cross join lateral (
    select coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows) as slots,
           coalesce(w.max_burst_workflows, t.max_burst_workflows) as burst
) l
cross join lateral pgdispatch.waiting_of(w.id, $2::integer) n
left join pgdispatch.unanswered($3::bigint) u on u.workspace_id = w.id
where w.id = $1::text::uuid
