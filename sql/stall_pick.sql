-- reads
-- $1 how long an execution must have run, $2 task queues to leave out, $3 at most. Executions to be asked about: those that are
-- known not to progress, to half of them, and then the next ones of a round through all.
with known as materialized (
    select e.id
    from pgdispatch.stalls s
    join pgdispatch.workflow_executions e on e.id = case when s.kind = 'EXECUTION' then s.name::uuid end
    where e.finished_at is null
    order by s.since, e.id
    limit $3::integer / 2
), walked as materialized (
    select e.id
    from pgdispatch.workflow_executions e
    left join pgdispatch.workflow_definitions d on d.id = e.workflow_definition_id
    where e.finished_at is null and e.status = 'RUNNING' and e.started_at <= clock_timestamp() - $1::interval
      and e.id > (select l.after_id from pgdispatch.stall_look l)
      and e.id <> all (array(select k.id from known k))
      and (d.task_queue <> all ($2::text[])) is not false
    order by e.id
    limit $3::integer - (select count(*) from known)
), moved as (
    update pgdispatch.stall_look l
    set after_id = coalesce(
        (select w.id from walked w order by w.id offset greatest($3::integer - (select count(*) from known) - 1, 0) limit 1),
        '00000000-0000-0000-0000-000000000000')
)
select id::text from known
union all
select id::text from walked
