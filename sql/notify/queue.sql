-- The notification queue of the cluster, which must not fill up.

-- name: notify_holder
-- reads
-- What may keep the cluster's notification queue from being emptied: the session with the longest open transaction, in
-- any database. No row if that is uncertain: if this role may not inspect some session, whose transaction may be longer,
-- or if there are only transactions of its own role shorter than a minute, as a replica's are. An idle session that
-- reads notifications holds a transaction ID too, with the start of its last statement.
select c.pid, c.role, c.database, c.application, c.age
from (
    select a.pid, a.usename::text as role, coalesce(a.datname::text, '') as database, coalesce(a.application_name, '') as application,
           clock_timestamp() - a.xact_start as age, bool_or(a.backend_type is null) over () as hidden
    from pg_locks l
    join pg_stat_activity a on a.pid = l.pid
    where l.locktype = 'virtualxid' and l.granted and a.usename is not null and a.pid <> pg_backend_pid()
      and coalesce(a.backend_type, 'client backend') = 'client backend' and a.state is distinct from 'idle'
) c
where not c.hidden and (c.role <> current_user or c.age > interval '1 minute')
order by c.age desc, c.pid
limit 1

-- name: notify_sessions
-- reads
-- For an administrator: the session that keeps the cluster's notification queue from being emptied is the first.
select pid, usename, datname, application_name, xact_start
from pg_stat_activity
where backend_type = 'client backend' and state <> 'idle' and pid <> pg_backend_pid()
order by xact_start
