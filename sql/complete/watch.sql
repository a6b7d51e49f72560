-- Who watches which execution for its end.

{{- /* For adopt: whether no live replica watches the execution e. The live replicas are an array: a join would not be
       evaluated again if another adopter was faster, and both would take. */ -}}
{{ define "unwatched" -}}
e.finished_at is null and e.status = 'RUNNING'
      and (e.watcher is null
           or e.watcher <> all (array(select r.id from pgdispatch.replicas r where r.expires_at > clock_timestamp()))
           or (e.watcher = $1 and e.id <> all ($3::uuid[])))
{{ end }}

-- name: adopt
-- writes watchers
-- $1 replica, $2 at most, $3 executions it already watches. Takes over executions that no live replica watches. If there
-- are more, it takes first those in whose workspace work waits for a slot; what waits is read only then.
with unwatched as materialized (
    select from pgdispatch.workflow_executions e
    where {{ template "unwatched" }}
    limit $2::bigint + 1
), orphans as materialized (
    select e.id
    from pgdispatch.workflow_executions e
    where {{ template "unwatched" }}
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
returning e.id::text, coalesce(e.workflow_id, '') as workflow_id, e.run_id, coalesce(e.namespace, '') as namespace, e.kind

-- name: swap_watches
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
returning e.id::text, coalesce(e.workflow_id, '') as workflow_id, case when e.watcher is not null then e.run_id end as run_id,
          coalesce(e.namespace, '') as namespace, e.kind

-- name: give_up_watches
-- writes watchers
-- $1 replica, $2 executions (null: all of its own). Ends their watches, so that any replica with room may take them.
update pgdispatch.workflow_executions e
set watcher = null
where e.watcher = $1 and e.finished_at is null and ($2::uuid[] is null or e.id = any ($2::uuid[]))

-- name: open_among
-- reads
-- $1 executions. Returns those that are recorded as running. A list, so that every plan reads only these rows.
select e.id::text, coalesce(e.workflow_id, '') as workflow_id, e.run_id, coalesce(e.namespace, '') as namespace, e.kind
from pgdispatch.workflow_executions e
where e.id = any ($1::uuid[]) and e.status = 'RUNNING'

-- name: open_under
-- reads
-- $1 workflow IDs that items name, $2 namespace. Returns the executions that are recorded as running under them.
select e.id::text, e.workflow_id, e.run_id, coalesce(e.namespace, '') as namespace, e.kind
from pgdispatch.workflow_executions e
where e.workflow_id = any ($1::text[]) and e.finished_at is null and e.status = 'RUNNING' and coalesce(e.namespace, $2::text) = $2::text

-- name: callback_key
-- reads
-- The key for the tokens of completion callbacks.
select k.key from pgdispatch.callback_key k
