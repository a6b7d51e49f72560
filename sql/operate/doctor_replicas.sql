-- reads
-- Every known replica: how long ago it expired (negative: it lives), how many items it holds and executions it watches,
-- and its namespace ('': it is of an earlier version).
select r.id, clock_timestamp() - r.expires_at as dead_for,
       coalesce(l.leased, 0) as leased,
       (select count(*) from pgdispatch.workflow_executions e where e.finished_at is null and e.status = 'RUNNING' and e.watcher = r.id) as watching,
       coalesce(r.namespace, '') as namespace
from pgdispatch.replicas r
left join (
    select q.claimed_by, count(*) as leased
    from pgdispatch.workflow_execution_queue q
    where q.stage in ('HOLDS', 'DOUBT') and q.lease_token >= (select t.leased_from from pgdispatch.mark_trim t) and q.status = 'CLAIMED'
    group by q.claimed_by
) l on l.claimed_by = r.id
order by r.started_at
