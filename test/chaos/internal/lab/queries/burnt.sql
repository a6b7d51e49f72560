-- Of the items enqueued since a time: counted failures, items that failed before they were dispatched, and attempts
-- beyond the first.
select coalesce(sum(q.failure_count), 0)::integer,
       count(*) filter (where q.status = 'FAILED' and q.dispatched_at is null)::integer,
       coalesce(sum(greatest(q.attempt_count - 1, 0)), 0)::integer
from pgdispatch.workflow_execution_queue q
where q.created_at >= $1
