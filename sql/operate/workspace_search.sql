-- reads
-- $1 the ID, the beginning of a name (as typed, in lower or upper case, or with capitals), or any part of one of the
-- first $2 names, case-insensitive; $3 at most, those that begin with it first. By the indexes of IDs and names.
select f.id::text
from (
    select w.id, w.name from pgdispatch.workspaces w
    where w.id = case when $1::text ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then $1::text::uuid end
    union
    select n.id, n.name
    from unnest(array[$1::text, lower($1::text), upper($1::text), initcap($1::text), upper(left($1::text, 1)) || lower(substr($1::text, 2))]) b (text)
    cross join lateral (
        select w.id, w.name from pgdispatch.workspaces w
        where w.name collate "C" >= b.text collate "C" and w.name collate "C" < (b.text || chr(1114111)) collate "C"
        order by w.name collate "C", w.id limit $3::bigint
    ) n
    union
    select n.id, n.name
    from (select w.id, w.name from pgdispatch.workspaces w order by w.name collate "C", w.id limit $2::bigint) n
    where position(lower($1::text) in lower(n.name)) > 0
) f
order by position(lower($1::text) in lower(f.name)) > 1, f.name collate "C", f.id
limit $3::bigint
