-- reads
-- For an administrator: the session that keeps the cluster's notification queue from being emptied is the first.
select pid, usename, datname, application_name, xact_start
from pg_stat_activity
where backend_type = 'client backend' and state <> 'idle' and pid <> pg_backend_pid()
order by xact_start
