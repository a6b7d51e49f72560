-- writes when executions were asked about
-- $1 at most, $2 how long. Unwatched executions of which nothing was heard for that long: to be asked about.
with silent as materialized (
    select e.id
    from pgdispatch.workflow_executions e
    where e.finished_at is null and e.status = 'RUNNING'
      and greatest(e.started_at, e.asked_at) <= clock_timestamp() - $2::interval
      and (e.watcher is null
           or e.watcher <> all (array(select r.id from pgdispatch.replicas r where r.expires_at > clock_timestamp())))
    order by greatest(e.started_at, e.asked_at), e.id
    limit $1
    for update skip locked
)
update pgdispatch.workflow_executions e
set asked_at = clock_timestamp()
from silent s
where e.id = s.id
returning e.id::text, e.run_id, coalesce(e.namespace, '') as namespace
