-- writes the position of a round
-- $1 minimum run time of an execution, $2 task queues to skip and $3 their namespaces, $4 at most. Executions to ask
-- about: first those known not to progress, up to half of $4, then the next ones of a round through all.
with known as materialized (
    select e.id, e.namespace
    from pgdispatch.stalls s
    join pgdispatch.workflow_executions e on e.id = case when s.kind = 'EXECUTION' then s.name::uuid end
    where e.finished_at is null
    order by s.since, e.id
    limit $4::integer / 2
), walked as materialized (
    select e.id, e.namespace
    from pgdispatch.workflow_executions e
    left join pgdispatch.workflow_definitions d on d.id = e.workflow_definition_id
    where e.finished_at is null and e.status = 'RUNNING' and e.started_at <= clock_timestamp() - $1::interval
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
select id::text, '' as run_id, coalesce(namespace, '') as namespace from known
union all
select id::text, '', coalesce(namespace, '') from walked
