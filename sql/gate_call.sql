-- reads
-- $1 channel: there is more work than this replica has workers, or nobody is on duty. Where the
-- queue fills, they find out by their polls.
select pg_notify($1, '') where pg_notification_queue_usage() < 0.1
