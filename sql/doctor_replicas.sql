-- reads
-- Every replica that is known: whether it lives, for how long it does not (negative: it does), what it holds and watches, and its
-- namespace ('': an earlier version's).
select r.id, clock_timestamp() - r.expires_at as dead_for,
       (select count(*) from pgdispatch.workflow_execution_queue q where q.status = 'CLAIMED' and q.claimed_by = r.id) as leased,
       (select count(*) from pgdispatch.workflow_executions e where e.finished_at is null and e.status = 'RUNNING' and e.watcher = r.id) as watching,
       coalesce(r.namespace, '') as namespace
from pgdispatch.replicas r
order by r.started_at
