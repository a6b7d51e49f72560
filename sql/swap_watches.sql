-- reads
-- $1 replica, $2 at most. For a replica that can watch no more: takes executions that nobody watches and whose slot is waited
-- for, and gives up as many whose slot is not. Returns both; run_id is null for what was given up.
with full_workspaces as materialized (
    select l.workspace_id from pgdispatch.lanes l where l.active >= l.slots and l.ready_priority is not null and not l.paused
), wanted as materialized (
    select e.id
    from pgdispatch.workflow_executions e
    where e.finished_at is null and e.status = 'RUNNING' and e.watcher is null
      and e.workspace_id in (select f.workspace_id from full_workspaces f)
    order by e.started_at, e.id
    limit $2
    for update skip locked
), idle as materialized (
    select e.id
    from pgdispatch.workflow_executions e
    where e.finished_at is null and e.status = 'RUNNING' and e.watcher = $1
      and e.workspace_id not in (select f.workspace_id from full_workspaces f)
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
returning e.id::text, case when e.watcher is not null then e.run_id end, coalesce(e.namespace, '')
