-- reads
-- $1 channel, $2 payload: a notification to oneself, to see that LISTEN still delivers.
select pg_notify($1, $2)
