-- Whether a standby follows, and whether commits wait for it.
select count(*) filter (where r.state = 'streaming') > 0, coalesce(bool_or(r.sync_state = 'sync'), false)
from pg_stat_replication r
where r.application_name = 'chaos_standby'
