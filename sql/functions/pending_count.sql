-- How many items of a workspace are waiting, due or not. Counted in two parts, each of which has its index.
create or replace function pgdispatch.pending_count(workspace_id uuid) returns bigint
language sql stable
as $$
    select (
        select count(*) from pgdispatch.workflow_execution_queue q
        where q.workspace_id = pending_count.workspace_id and q.status = 'PENDING' and not q.outcome_unknown
          and q.run_at >= '-infinity' -- any: so that the lanes' index is used
    ) + (
        select count(*) from pgdispatch.workflow_execution_queue q
        where q.workspace_id = pending_count.workspace_id and q.status = 'PENDING' and q.outcome_unknown
    );
$$;
