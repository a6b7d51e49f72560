-- The number of items that have not ended, and the state of the oldest.
select count(*)::integer,
       coalesce((array_agg(format('%s %s since %s, attempt %s, by %s: %s', q.execution_id, q.status, to_char(coalesce(q.dispatched_at, q.claimed_at, q.created_at), 'HH24:MI:SS.MS'), q.attempt_count,
                                  coalesce(q.claimed_by, '-'), left(coalesce(q.last_error, '-'), 200)) order by q.id))[1:5], '{}')::text[]
from pgdispatch.workflow_execution_queue q
where q.status in ('PENDING', 'CLAIMED', 'DISPATCHED')
