-- reads
-- What may keep the notification queue of the cluster from being emptied: the session that has been in one transaction for longest, in
-- whatever database. Those that this role may not look into come last, with no age.
select a.pid, coalesce(a.usename::text, '') as role, coalesce(a.datname::text, '') as database, coalesce(a.application_name, '') as application,
       clock_timestamp() - a.xact_start as age
from pg_locks l
join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'virtualxid' and l.granted and a.backend_type = 'client backend' and a.pid <> pg_backend_pid()
order by a.xact_start nulls last, a.pid
limit 1
