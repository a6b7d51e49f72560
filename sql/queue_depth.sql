-- reads
-- $1 how many items of a status are counted at the most.
select d.pending, d.claimed, d.dispatched, d.dead, d.dead_is_all, d.oldest_waiting, d.replicas, d.max_claims, d.paused,
       s.task_queues, s.without_poller, s.failing, pg_notification_queue_usage() as notify_queue
from pgdispatch.queue_depth($1) d
cross join (
    select count(*) filter (where s.kind = 'TASK_QUEUE') as task_queues,
           coalesce(sum(s.executions) filter (where s.kind = 'TASK_QUEUE'), 0) as without_poller,
           count(*) filter (where s.kind = 'EXECUTION') as failing
    from pgdispatch.stalled s
) s
