-- The statements that this database has executed so far, except this query.
select s.calls, s.query from public.pg_stat_statements s
join pg_database d on d.oid = s.dbid
where d.datname = current_database() and s.query not like '%pg_stat_%'
order by s.calls desc
