-- $1 workspace or null, $2 key, $3 its limit, or null, which deletes it. The limit of the key "metered" is a rate.
with gone as (
    delete from pgdispatch.limits l where l.key = $2 and l.workspace_id is not distinct from $1::text::uuid and $3::integer is null
), changed as (
    update pgdispatch.limits l
    set max_concurrent = case when $2 <> 'metered' then $3::integer end, max_starts = case when $2 = 'metered' then array[$3::integer] end
    where l.key = $2 and l.workspace_id is not distinct from $1::text::uuid and $3::integer is not null
    returning l.id
)
insert into pgdispatch.limits (workspace_id, key, max_concurrent, max_starts, per)
select $1::text::uuid, $2, case when $2 <> 'metered' then $3::integer end, case when $2 = 'metered' then array[$3::integer] end,
       case when $2 = 'metered' then array[interval '2 seconds'] end
where $3::integer is not null and not exists (select from changed)
