-- writes watchers
-- $1 replica, $2 at most. For a replica that can watch no more: takes unwatched executions in whose workspace work
-- waits for a slot, and gives up as many in whose workspace none waits. Returns both; run_id is null for those given
-- up.
with busy as materialized (
    select w.workspace_id from pgdispatch.longest_waiting(10000) w
), wanted as materialized (
    select e.id
    from pgdispatch.workflow_executions e
    where e.finished_at is null and e.status = 'RUNNING' and e.watcher is null
      and e.workspace_id in (select b.workspace_id from busy b)
    order by e.started_at, e.id
    limit $2
    for update skip locked
), idle as materialized (
    select e.id
    from pgdispatch.workflow_executions e
    where e.finished_at is null and e.status = 'RUNNING' and e.watcher = $1
      and e.workspace_id not in (select b.workspace_id from busy b)
    order by e.started_at, e.id
    limit $2
    for update skip locked
), taken as materialized (
    select w.id, row_number() over () as n from wanted w
), dropped as materialized (
    select i.id, row_number() over () as n from idle i
), pairs as materialized (
    select t.id as taken, d.id as dropped from taken t join dropped d using (n)
)
update pgdispatch.workflow_executions e
set watcher = case when e.id = any (array(select p.taken from pairs p)) then $1 end
where e.id = any (array(select p.taken from pairs p union all select p.dropped from pairs p))
returning e.id::text, case when e.watcher is not null then e.run_id end as run_id, coalesce(e.namespace, '') as namespace
