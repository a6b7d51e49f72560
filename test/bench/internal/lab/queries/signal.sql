-- A signal under a new name to the newest running workflow.
with new as materialized (
    select gen_random_uuid()::text as name,
           (select q.execution_id from pgdispatch.workflow_execution_queue q
            where q.status = 'DISPATCHED' and q.workspace_id = $1 and q.workflow_definition_id = $2 order by q.id desc limit 1) as execution
)
select n.name from new n where pgdispatch.signal(n.execution, n.name, $3) is not null
