-- reads
-- Live replicas, with the items each has leased and the executions each watches, and how each was by its last heartbeat.
select r.id, r.version, r.workers, clock_timestamp() - r.started_at as up,
       (select count(*) from pgdispatch.workflow_execution_queue q where q.status = 'CLAIMED' and q.claimed_by = r.id) as leased,
       (select count(*) from pgdispatch.workflow_executions e where e.finished_at is null and e.status = 'RUNNING' and e.watcher = r.id) as watching,
       clock_timestamp() - r.renewed_at as heard, r.state
from pgdispatch.replicas r
where r.expires_at > clock_timestamp()
order by r.started_at, r.id
