-- reads
-- $1 how many items of a status are counted at most.
select greatest(d.pending - u.items, 0) as pending, u.items as unanswered, clock_timestamp() - u.since as oldest_unanswered,
       d.claimed, d.dispatched, d.dead as dead_letters, d.dead_is_all as dead_letters_exact, d.oldest_waiting, d.replicas, d.max_claims, d.paused,
       l.at as paused_since, coalesce(l.who, '') as paused_by,
       s.task_queues as idle_queues, s.without_poller, s.failing, pg_notification_queue_usage() as notify_queue,
       p.items as parked, p.first as parked_first, g.open as signals, clock_timestamp() - g.oldest as oldest_signal, g.given_up as signals_given_up
from pgdispatch.queue_depth($1) d
cross join (select coalesce(sum(u.items), 0)::bigint as items, min(u.since) as since from pgdispatch.unanswered($1) u) u
cross join (
    select count(*) filter (where s.kind = 'TASK_QUEUE') as task_queues,
           coalesce(sum(s.executions) filter (where s.kind = 'TASK_QUEUE'), 0) as without_poller,
           count(*) filter (where s.kind = 'EXECUTION') as failing
    from pgdispatch.stalled s
) s
left join lateral pgdispatch.paused_by(d.paused, d.max_claims) l on d.paused or d.max_claims = 0
cross join (
    select count(*) as items, coalesce((array_agg(p.item_id || ': ' || p.error order by p.parked_at, p.item_id))[1], '') as first
    from (select p.* from pgdispatch.parked_items p limit $1) p
    cross join lateral (select q.* from pgdispatch.workflow_execution_queue q where q.id = p.item_id offset 0) q -- per row
    where q.attempt_count = p.attempts and q.status in ('PENDING', 'CLAIMED')
) p
cross join (
    select (select count(*) from (select from pgdispatch.signals s where s.state = 'OPEN' limit $1) s) as open,
           (select min(s.sent_at) from (select s.sent_at from pgdispatch.signals s where s.state = 'OPEN' and s.next_try_at < 'infinity'
                                        order by s.next_try_at limit $1) s) as oldest,
           (select count(*) from (select from pgdispatch.signals s
                                  where s.state = 'GIVEN_UP' and s.settled_at > clock_timestamp() - interval '1 day' limit $1) s) as given_up
) g
