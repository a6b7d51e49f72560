-- reads
-- $1 ID or name, $2 workspaces (null: any), $3 at most.
select d.id::text
from pgdispatch.workflow_definitions d
where (d.id::text = lower($1::text) or d.name = $1::text)
  and ($2::text[] is null or d.workspace_id = any ($2::text[]::uuid[]))
limit $3::bigint
