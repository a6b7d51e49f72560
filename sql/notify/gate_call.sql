-- reads
-- $1 channel. Calls the other replicas: this one has more work than workers, or nobody is on duty. If the notification
-- queue fills, they find out by polling.
select pg_notify($1, '') where pg_notification_queue_usage() < 0.1
