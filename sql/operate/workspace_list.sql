-- reads
-- $1 IDs (null: all), $2 part of the name, case-insensitive (null: any), $3 only those after this ID (null: from the
-- first), $4 at most. Ordered by name.
with page as materialized (
    select w.id
    from pgdispatch.workspaces w
    where ($1::text[] is null or w.id = any ($1::text[]::uuid[]))
      and ($2::text is null or position(lower($2::text) in lower(w.name)) > 0)
      and ($3::text is null or (w.name, w.id) > (select a.name, a.id from pgdispatch.workspaces a where a.id = $3::text::uuid))
    order by w.name, w.id
    limit $4::bigint
)
select w.id::text, w.name, w.plan, w.max_concurrent_workflows, s.max_concurrent_workflows as "limit",
       w.max_burst_workflows, pgdispatch.burst_limit(s.max_concurrent_workflows, coalesce(w.max_burst_workflows, t.max_burst_workflows)) as burst,
       w.max_starts_per_second, w.paused,
       greatest(s.waiting - coalesce(u.items, 0), 0) as waiting, s.claimed, s.running, coalesce(u.items, 0) as unanswered,
       clock_timestamp() - u.since as oldest_unanswered, clock_timestamp() - s.oldest_waiting_since as oldest_waiting, w.created_at
from pgdispatch.workspaces w
join pgdispatch.workspace_tiers t on t.plan = w.plan
join pgdispatch.workspace_statistics s on s.workspace_id = w.id
left join pgdispatch.unanswered(10000) u on u.workspace_id = w.id
where w.id = any (array(select p.id from page p)) and s.workspace_id = any (array(select p.id from page p))
order by w.name, w.id
