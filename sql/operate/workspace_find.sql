-- reads
-- $1 ID or name (null: none), $2 prefix of the name (null: none), $3 at most. By the indexes of IDs and names.
select w.id::text, w.name
from (
    select i.id from pgdispatch.workspaces i
    where i.id = case when $1::text ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then $1::text::uuid end
    union
    (select n.id from pgdispatch.workspaces n where n.name collate "C" = $1::text collate "C" order by n.name collate "C", n.id limit $3::bigint)
    union
    (select p.id from pgdispatch.workspaces p
     where p.name collate "C" >= $2::text collate "C" and p.name collate "C" < ($2::text || chr(1114111)) collate "C"
     order by p.name collate "C", p.id limit $3::bigint)
) found
join pgdispatch.workspaces w on w.id = found.id
order by w.name, w.id
limit $3::bigint
