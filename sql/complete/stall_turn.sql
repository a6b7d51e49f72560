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
    select coalesce(e.namespace, '') as namespace, d.task_queue, count(*)::integer as executions
    from pgdispatch.workflow_executions e
    join pgdispatch.workflow_definitions d on d.id = e.workflow_definition_id
    where exists (select from turn)
      and e.finished_at is null and e.status = 'RUNNING' and e.started_at <= clock_timestamp() - $2::interval
    group by 1, 2
    order by count(*) desc, 1, 2
    limit $3
)
select q.namespace, q.task_queue as name, q.executions
from turn
left join queues q on true
