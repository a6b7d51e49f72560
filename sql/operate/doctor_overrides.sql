-- reads
-- Harmful settings that were stored for roles or for this database.
select coalesce(r.rolname::text, 'every role') as role, coalesce('database ' || d.datname, 'every database') as scope, c.setting
from pg_db_role_setting s
cross join unnest(s.setconfig) as c (setting)
left join pg_roles r on r.oid = s.setrole
left join pg_database d on d.oid = s.setdatabase
where (s.setdatabase = 0 or d.datname = current_database())
  and c.setting in ('synchronous_commit=off', 'session_replication_role=replica')
order by role, scope, c.setting
