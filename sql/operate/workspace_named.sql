-- reads
-- $1 IDs, $2 names, $3 at most. The workspaces that have one of them, by name.
select w.id::text, w.name
from pgdispatch.workspaces w
where w.id = any ($1::text[]::uuid[]) or w.name collate "C" = any ($2::text[])
order by w.name collate "C", w.id
limit $3::bigint
