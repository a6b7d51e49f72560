-- Executions whose workflows make no progress.

-- name: stall_turn
-- writes the turn to look for stalls
-- $1 the interval of turns, $2 minimum run time of an execution, $3 at most. Takes the turn to look for what does not
-- progress: the task queues of executions that have run for that long, those with the most executions first. No row
-- means that it is not this replica's turn; a row without a name means that nothing has run for that long.
with turn as (
    update pgdispatch.stall_look l
    set looked_at = clock_timestamp()
    where l.looked_at <= clock_timestamp() - $1::interval
    returning l.singleton
), queues as (
    select coalesce(e.namespace, '') as namespace, d.task_queue, e.kind, count(*)::integer as executions
    from pgdispatch.workflow_executions e
    join pgdispatch.workflow_definitions d on d.id = e.workflow_definition_id
    where exists (select from turn)
      and e.finished_at is null and e.status = 'RUNNING' and e.started_at <= clock_timestamp() - $2::interval
    group by 1, 2, 3
    order by count(*) desc, 1, 2, 3
    limit $3
)
select q.namespace, q.task_queue as name, q.kind, q.executions
from turn
left join queues q on true

-- name: stall_pick
-- writes the position of a round
-- $1 minimum run time of an execution, $2 task queues to skip and $3 their namespaces, $4 at most. Executions to ask
-- about: first those known not to progress, up to half of $4, then the next ones of a round through all.
with known as materialized (
    select e.id, e.workflow_id, e.namespace
    from pgdispatch.stalls s
    join pgdispatch.workflow_executions e on e.id = case when s.kind = 'EXECUTION' then s.name::uuid end
    where e.finished_at is null
    order by s.since, e.id
    limit $4::integer / 2
), walked as materialized (
    select e.id, e.workflow_id, e.namespace
    from pgdispatch.workflow_executions e
    left join pgdispatch.workflow_definitions d on d.id = e.workflow_definition_id
    where e.finished_at is null and e.status = 'RUNNING' and e.started_at <= clock_timestamp() - $1::interval
      and e.kind = 'workflow' -- an activity has no workflow task
      and e.id > (select l.after_id from pgdispatch.stall_look l)
      and e.id <> all (array(select k.id from known k))
      and not exists (
          select from unnest($2::text[], $3::text[]) as x (name, namespace)
          where x.name = d.task_queue and x.namespace = coalesce(e.namespace, ''))
    order by e.id
    limit $4::integer - (select count(*) from known)
), moved as (
    update pgdispatch.stall_look l
    set after_id = coalesce(
        (select w.id from walked w order by w.id offset greatest($4::integer - (select count(*) from known) - 1, 0) limit 1),
        '00000000-0000-0000-0000-000000000000')
)
select id::text, coalesce(workflow_id, '') as workflow_id, '' as run_id, coalesce(namespace, '') as namespace, 'workflow' as kind
from known
union all
select id::text, coalesce(workflow_id, ''), '', coalesce(namespace, ''), 'workflow' from walked

-- name: stall_record
-- writes stalls
-- $1 task queues without a poller, $2 their namespaces and $3 how many executions each has; $4 executions that were
-- asked about; $5 those of them that do not progress, $6 their namespaces and $7 why; $8 namespaces that did not
-- answer, for which nothing changes. Returns what is new, and what is over.
with over as (
    delete from pgdispatch.stalls s
    where case s.kind
              when 'TASK_QUEUE' then s.namespace <> all ($8::text[])
                   and not exists (select from unnest($1::text[], $2::text[]) as q (name, namespace)
                                   where q.name = s.name and q.namespace = s.namespace)
              else s.name = any ($4::text[]) and s.name <> all ($5::text[])
                   or not exists (select from pgdispatch.workflow_executions e
                                  where e.id = s.name::uuid and e.status in ('STARTING', 'RUNNING'))
          end
    returning s.kind, s.namespace, s.name, s.executions, s.detail
), found as (
    insert into pgdispatch.stalls as s (kind, namespace, name, executions, detail)
    select 'TASK_QUEUE', q.namespace, q.name, sum(q.executions), 'no worker has polled it for minutes'
    from unnest($1::text[], $2::text[], $3::integer[]) as q (name, namespace, executions) -- once for each kind
    group by q.namespace, q.name
    union all
    select 'EXECUTION', x.namespace, x.name, 1, x.detail
    from unnest($5::text[], $6::text[], $7::text[]) as x (name, namespace, detail)
    on conflict (kind, namespace, name) do update
    set executions = excluded.executions, detail = excluded.detail
    returning s.kind, s.namespace, s.name, s.executions, s.detail, s.since
)
select false as over, f.kind, f.namespace, f.name, f.executions, f.detail from found f where f.since >= statement_timestamp()
union all
select true, o.kind, o.namespace, o.name, o.executions, o.detail from over o
