-- How many items of a workspace are waiting, due or not. Counted in two parts, each of which has its index.
create or replace function pgdispatch.pending_count(workspace_id uuid) returns bigint
language sql stable
as $$
    select (
        select count(*) from pgdispatch.workflow_execution_queue q
        where q.workspace_id = pending_count.workspace_id and q.stage = 'WAITS'
          and q.run_at >= '-infinity' -- any: so that its index is used
    ) + (
        -- Few at any time: in a query of their own, or what holds a slot of the workspace could be read for them.
        select count(*)
        from (select q.workspace_id from pgdispatch.workflow_execution_queue q where q.stage = 'DOUBT' offset 0) d
        where d.workspace_id = pending_count.workspace_id
    );
$$;
