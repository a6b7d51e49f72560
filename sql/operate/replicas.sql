-- reads
-- Live replicas: how many items each has leased, how many executions it watches, and its state at its last heartbeat.
select r.id, r.version, r.workers, clock_timestamp() - r.started_at as up,
       coalesce(l.leased, 0) as leased,
       (select count(*) from pgdispatch.workflow_executions e where e.finished_at is null and e.status = 'RUNNING' and e.watcher = r.id) as watching,
       clock_timestamp() - r.renewed_at as heard, r.state
from pgdispatch.replicas r
left join (
    select q.claimed_by, count(*) as leased
    from pgdispatch.workflow_execution_queue q
    where q.stage in ('HOLDS', 'DOUBT') and q.lease_token >= (select t.leased_from from pgdispatch.mark_trim t) and q.status = 'CLAIMED'
    group by q.claimed_by
) l on l.claimed_by = r.id
where r.expires_at > clock_timestamp()
order by r.started_at, r.id
