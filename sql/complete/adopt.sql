-- writes watchers
-- $1 replica, $2 at most, $3 executions it already watches. Takes over executions that no live replica watches, first
-- those in whose workspace work waits for a slot.
-- The live replicas are an array: a join would not be evaluated again if another adopter was faster, and both would
-- take.
with orphans as materialized (
    select e.id
    from pgdispatch.workflow_executions e
    where e.finished_at is null and e.status = 'RUNNING'
      and (e.watcher is null
           or e.watcher <> all (array(select r.id from pgdispatch.replicas r where r.expires_at > clock_timestamp()))
           or (e.watcher = $1 and e.id <> all ($3::uuid[])))
    order by e.workspace_id in (select w.workspace_id from pgdispatch.longest_waiting(10000) w) desc, e.started_at, e.id
    limit $2
    for update of e skip locked
)
update pgdispatch.workflow_executions e
set watcher = $1
from orphans
where e.id = orphans.id
returning e.id::text, e.run_id, coalesce(e.namespace, '') as namespace
