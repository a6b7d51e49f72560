-- reads
-- $1 how many of the newest failures are searched, $2 kind of error, $3 at most; after the one that failed at $4 with
-- ID $5 (null: from the first); $6 workspaces (null: any). Its open dead letters, newest first.
with failures as materialized (
    select q.id from pgdispatch.workflow_execution_queue q where q.stage = 'DEAD' order by q.finished_at desc limit $1::bigint
)
select f.id
from failures n cross join lateral (select f.* from pgdispatch.failed_items f where f.id = n.id offset 0) f -- per row
where f.open and pgdispatch.error_kind(f.last_error) = $2::text
  and ($4::timestamptz is null or (f.finished_at, f.id) < ($4::timestamptz, $5::bigint))
  and ($6::text[] is null or f.workspace_id = any ($6::text[]::uuid[]))
order by f.finished_at desc, f.id desc
limit $3::bigint
