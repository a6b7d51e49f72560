-- reads
-- What may keep the cluster's notification queue from being emptied: the session with the longest open transaction, in
-- any database. Sessions that this role may not inspect come last, without an age. An idle session that reads
-- notifications holds a transaction ID too, with the start of its last statement.
select a.pid, coalesce(a.usename::text, '') as role, coalesce(a.datname::text, '') as database, coalesce(a.application_name, '') as application,
       clock_timestamp() - a.xact_start as age
from pg_locks l
join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'virtualxid' and l.granted and a.backend_type = 'client backend' and a.pid <> pg_backend_pid()
  and a.state is distinct from 'idle'
order by a.xact_start nulls last, a.pid
limit 1
