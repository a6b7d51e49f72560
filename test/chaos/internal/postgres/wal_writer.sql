-- The process ID of the WAL writer.
select pid from pg_stat_activity where backend_type = 'walwriter'
