-- reads
-- $1 how many items of each kind to look at, at most; $2 how many limits to return, at most. The last row has no key and
-- sums up the others: see functions/limits_in_use.sql.
select coalesce(l.id, 0) as id, coalesce(l.workspace_id::text, '') as workspace_id, coalesce(w.name, '') as workspace, coalesce(l.key, '') as key,
       l.max_concurrent, l.max_starts, l.per, l.active, l.starts_left, l.waiting, coalesce(l.behind, 0) as behind
from pgdispatch.limits_in_use($1::bigint, $2::bigint) with ordinality
     as l (id, workspace_id, key, max_concurrent, max_starts, per, active, starts_left, waiting, behind, place)
left join pgdispatch.workspaces w on w.id = l.workspace_id
order by l.place
