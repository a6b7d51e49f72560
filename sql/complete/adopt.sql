-- writes watchers
-- $1 replica, $2 at most, $3 executions it already watches. Takes over executions that no live replica watches. If there
-- are more, it takes first those in whose workspace work waits for a slot; what waits is read only then.
with unwatched as materialized (
    select from pgdispatch.workflow_executions e
    where {{ template "parts/unwatched.sql" }}
    limit $2::bigint + 1
), orphans as materialized (
    select e.id
    from pgdispatch.workflow_executions e
    where {{ template "parts/unwatched.sql" }}
    order by (select count(*) > $2::bigint from unwatched)
                 and e.workspace_id in (select w.workspace_id from pgdispatch.longest_waiting(10000) w) desc,
             e.started_at, e.id
    limit $2::bigint
    for update of e skip locked
)
update pgdispatch.workflow_executions e
set watcher = $1
from orphans
where e.id = orphans.id
returning e.id::text, e.run_id, coalesce(e.namespace, '') as namespace
