-- The number of replicas' sessions, and of the listeners among them that began after a time.
select count(*)::integer, count(*) filter (where a.application_name = 'pgdispatch listener' and a.backend_start > $1)::integer
from pg_stat_activity a
where a.application_name like 'pgdispatch%'
