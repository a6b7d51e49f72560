-- The longest time without a transition to a status, between two times.
select coalesce(extract(epoch from max(t.at - t.before)), 0)::float8
from (
    select m.at, lag(m.at) over (order by m.at) as before
    from (
        select c.at from chaos.changes c
        where c.at between $2 and $3 and c.new_status = $1 and c.old_status is distinct from c.new_status
        union all
        values ($2), ($3)
    ) m (at)
) t
