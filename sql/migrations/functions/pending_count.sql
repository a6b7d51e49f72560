-- How many items of a workspace are waiting, due or not.
create function pgdispatch.pending_count(workspace_id uuid) returns bigint
language sql stable
as $$
    select count(*)
    from pgdispatch.workflow_execution_queue q
    where q.workspace_id = pending_count.workspace_id and q.status = 'PENDING';
$$;
