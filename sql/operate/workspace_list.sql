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
select w.id::text, w.name, w.plan, w.max_concurrent_workflows, s.max_concurrent_workflows as "limit", w.max_starts_per_second, w.paused,
       s.waiting, s.claimed, s.running, clock_timestamp() - s.oldest_waiting_since as oldest_waiting, w.created_at
from pgdispatch.workspaces w
join pgdispatch.workspace_statistics s on s.workspace_id = w.id
where w.id = any (array(select p.id from page p)) and s.workspace_id = any (array(select p.id from page p))
order by w.name, w.id
