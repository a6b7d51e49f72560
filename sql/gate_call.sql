-- reads
-- $1 channel: there is more work than this replica has workers, or nobody is on duty.
select pg_notify($1, '')
