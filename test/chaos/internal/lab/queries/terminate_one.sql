-- Terminates one session of a replica.
select count(pg_terminate_backend(x.pid))::integer
from (
    select a.pid from pg_stat_activity a
    where a.application_name like 'pgdispatch%'
    order by hashtext(a.pid::text || $1::integer::text)
    limit 1
) x
