-- Bytes of pgdispatch's tables and of their indexes, connections of replicas, usage of the notification queue, and
-- number of rows that have not ended.
select sum(pg_table_size(c.oid))::double precision, sum(pg_indexes_size(c.oid))::double precision,
       (select count(*)::double precision from pg_stat_activity a where a.datname = current_database() and a.application_name like 'pgdispatch%'),
       pg_notification_queue_usage(),
       (select count(*)::double precision from pgdispatch.workflow_execution_queue q where q.stage is not null)
from pg_class c
where c.relnamespace = 'pgdispatch'::regnamespace and c.relkind = 'r'
