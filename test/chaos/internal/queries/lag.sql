-- How full the notification queue is, how many transactions old the oldest snapshot of a replica, and how many listeners' sessions
-- wait for a client that takes nothing.
select pg_notification_queue_usage(), coalesce(max(age(a.backend_xmin)), 0)::integer,
       count(*) filter (where a.application_name = 'pgdispatch listener' and a.wait_event = 'ClientWrite')::integer
from pg_stat_activity a
where a.application_name like 'pgdispatch%'
