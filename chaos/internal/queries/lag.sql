-- How full the notification queue is, and how many transactions old the oldest snapshot of a replica.
select pg_notification_queue_usage(), coalesce(max(age(a.backend_xmin)), 0)::integer
from pg_stat_activity a
where a.application_name like 'pgdispatch%'
