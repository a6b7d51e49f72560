-- reads
-- $1 channel, $2 payload: a notification to this replica itself, to check that LISTEN still delivers.
select pg_notify($1, $2)
