-- Usage of the notification queue, age in transactions of the oldest snapshot of a replica, and number of listeners'
-- sessions that wait for a client that does not read.
select pg_notification_queue_usage(), coalesce(max(age(a.backend_xmin)), 0)::integer,
       count(*) filter (where a.application_name = 'pgdispatch listener' and a.wait_event = 'ClientWrite')::integer
from pg_stat_activity a
where a.application_name like 'pgdispatch%'
