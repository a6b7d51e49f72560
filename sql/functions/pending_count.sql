-- How many items of a workspace wait, due or not. Two counts, each with its own index.
create or replace function pgdispatch.pending_count(workspace_id uuid) returns bigint
language sql stable
as $$
    select (
        select count(*) from pgdispatch.workflow_execution_queue q
        where q.workspace_id = pending_count.workspace_id and q.stage = 'WAITS'
          and q.run_at >= '-infinity' -- always true: makes the index fit
    ) + (
        -- Few at any time. A separate query, or all slot holders of the workspace could be read for them.
        select count(*)
        from (select q.workspace_id from pgdispatch.workflow_execution_queue q where q.stage = 'DOUBT' offset 0) d
        where d.workspace_id = pending_count.workspace_id
    );
$$;
