-- name: timeline
-- reads
-- The cluster and the timeline of a primary, which each promotion increases.
select system_identifier, substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) as timeline from pg_control_system()
