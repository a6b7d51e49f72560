select coalesce(sum(calls), 0)::bigint from pg_stat_user_functions where schemaname = 'pgdispatch' and funcname = 'claim'
