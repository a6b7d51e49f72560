-- Terminates sessions whose application_name is like $1.
select count(pg_terminate_backend(a.pid))::integer
from pg_stat_activity a
where a.application_name like $1 and a.pid <> pg_backend_pid()
