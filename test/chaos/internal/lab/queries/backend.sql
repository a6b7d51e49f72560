-- One server process of a replica.
select a.pid
from pg_stat_activity a
where a.application_name like 'pgdispatch%'
order by hashtext(a.pid::text || $1::integer::text)
limit 1
