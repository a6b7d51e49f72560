-- A signal under a new name to the newest running workflow, of whichever workspace.
with new as materialized (
    select gen_random_uuid()::text as name,
           (select q.execution_id from pgdispatch.workflow_execution_queue q
            where num_nulls($1::uuid, $2::uuid) = 0 order by q.status = 'DISPATCHED' desc, q.id desc limit 1) as execution
)
select n.name from new n where pgdispatch.signal(n.execution, n.name, $3) is not null
