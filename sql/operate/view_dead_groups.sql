-- reads
-- $1 how many of the newest failures are searched, $2 groups at most, $3 workspaces (null: any). Open dead letters by
-- kind of error, largest first.
with failures as materialized (
    select q.id from pgdispatch.workflow_execution_queue q where q.stage = 'DEAD' order by q.finished_at desc limit $1::bigint
)
select pgdispatch.error_kind(f.last_error) as kind, count(*) as items, count(distinct f.workspace_id) as workspaces,
       min(f.finished_at) as first_at, max(f.finished_at) as last_at, max(f.id) as newest,
       (array_agg(f.last_error order by f.id desc))[1] as example
from failures n cross join lateral (select f.* from pgdispatch.failed_items f where f.id = n.id offset 0) f -- per row
where f.open and ($3::text[] is null or f.workspace_id = any ($3::text[]::uuid[]))
group by pgdispatch.error_kind(f.last_error)
order by count(*) desc, max(f.id) desc
limit $2::bigint
