-- When the last of these items was claimed again or ended, since a time. Null while an item has been neither.
select case when count(*) = count(t.at) then max(t.at) end
from unnest($1::bigint[]) as i (item)
left join lateral (
    select min(c.at) as at
    from chaos.changes c
    where c.item = i.item and c.at > $2
      and (c.new_status = 'CLAIMED' and c.old_status = 'PENDING' or c.new_status in ('DISPATCHED', 'COMPLETED', 'FAILED'))
) t on true
