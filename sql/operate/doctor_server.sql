-- reads
-- The server, the database and this session's role. Settings are in their own units: timeouts in milliseconds.
select current_setting('server_version_num')::integer as version,
       current_setting('server_version') as version_text,
       (select pg_encoding_to_char(d.encoding)::text from pg_database d where d.datname = current_database()) as encoding,
       current_user::text as role,
       pg_has_role(current_user, 'pg_read_all_stats', 'usage') as sees_all,
       clock_timestamp() as now,
       pg_notification_queue_usage() as notify_usage,
       (select count(*) from pg_stat_activity a where a.backend_type = 'client backend') as connections,
       current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
           - coalesce(nullif(current_setting('reserved_connections', true), '')::integer, 0) as connections_allowed,
       (select jsonb_object_agg(s.name, s.setting) from pg_settings s
        where s.name in ('fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum', 'track_counts', 'statement_timeout', 'lock_timeout',
                         'transaction_timeout', 'idle_session_timeout', 'idle_in_transaction_session_timeout',
                         'default_transaction_read_only', 'session_replication_role')) as settings
