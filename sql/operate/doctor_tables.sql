-- reads
-- Tables of pgdispatch whose storage settings differ from those of the migrations, or that autovacuum skips.
select x.relation as name,
       case when c.options && '{autovacuum_enabled=false,autovacuum_enabled=off}' then 'autovacuum is off'
            else 'missing ' || array_to_string(array(
                select o from unnest(x.options) o except select o from unnest(c.options) o order by 1), ', ')
       end as problem
from (values
    ('workflow_execution_queue', '{fillfactor=50,autovacuum_vacuum_scale_factor=0.02,autovacuum_vacuum_threshold=1000,'
        'autovacuum_vacuum_insert_scale_factor=0.05,autovacuum_analyze_scale_factor=0.05,autovacuum_vacuum_cost_delay=0}'::text[]),
    ('workflow_executions', '{fillfactor=50,autovacuum_vacuum_scale_factor=0.02,autovacuum_vacuum_threshold=1000,'
        'autovacuum_vacuum_cost_delay=0}'),
    ('marks', '{autovacuum_vacuum_scale_factor=0.02,autovacuum_vacuum_threshold=1000,autovacuum_vacuum_insert_threshold=-1,'
        'autovacuum_vacuum_cost_delay=0}'),
    ('enqueue_keys', '{autovacuum_vacuum_scale_factor=0.02,autovacuum_vacuum_threshold=1000,autovacuum_vacuum_cost_delay=0}'),
    ('signals', '{autovacuum_vacuum_scale_factor=0.02,autovacuum_vacuum_threshold=1000,autovacuum_vacuum_cost_delay=0}'),
    ('workspace_activity', '{fillfactor=80,autovacuum_vacuum_scale_factor=0.05,autovacuum_vacuum_cost_delay=0}'),
    ('rates', '{fillfactor=50}'), ('limit_starts', '{fillfactor=50}'), ('mark_trim', '{fillfactor=50}'),
    ('retention_walk', '{fillfactor=50}'), ('close_sweep', '{fillfactor=50}'), ('close_lists', '{fillfactor=50}'),
    ('stall_look', '{fillfactor=50}'), ('signal_turn', '{fillfactor=50}'), ('activity', '{fillfactor=50}')
) as x (relation, options)
cross join lateral (
    select coalesce((select r.reloptions from pg_class r where r.oid = to_regclass('pgdispatch.' || x.relation)), '{}') as options
) c
where not x.options <@ c.options or c.options && '{autovacuum_enabled=false,autovacuum_enabled=off}'
order by x.relation
