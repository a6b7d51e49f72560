-- reads
-- $1 the age from which to report. What keeps vacuum from removing dead rows, and for how long (null: unknown), longest
-- first.
select h.kind, h.name, h.detail, h.age
from (
    select 'session' as kind, a.pid::text as name, concat_ws(', ', a.usename, nullif(a.application_name, ''), a.state) as detail,
           clock_timestamp() - a.xact_start as age
    from pg_stat_activity a
    where a.backend_xmin is not null and a.pid <> pg_backend_pid() and a.backend_type = 'client backend'
      and a.xact_start < clock_timestamp() - $1::interval
    union all
    select 'prepared transaction', p.gid, concat_ws(', ', p.owner, 'database ' || p.database), clock_timestamp() - p.prepared
    from pg_prepared_xacts p
    where p.prepared < clock_timestamp() - $1::interval
    union all
    select 'replication slot', s.slot_name::text, s.slot_type || ', not in use', null
    from pg_replication_slots s
    where not s.active and coalesce(s.xmin, s.catalog_xmin) is not null
) h
order by h.age desc nulls last, h.kind, h.name
limit 20
