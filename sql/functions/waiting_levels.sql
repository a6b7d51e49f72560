-- Every workspace with items waiting, and each of its levels of priority, with the first item of each: by stepping through the
-- index, so the cost is the rows that the caller takes, and no more: a caller may set a limit. In SQL without a search_path of
-- its own, so that it becomes part of the statements that call it.
create or replace function pgdispatch.waiting_levels()
returns table (workspace_id uuid, priority integer, run_at timestamptz, id bigint, enqueue_xid xid8)
language sql stable
as $$
    with recursive waiting as (
        (select q.workspace_id, q.priority, q.run_at, q.id, q.enqueue_xid
         from pgdispatch.workflow_execution_queue q
         where q.stage = 'WAITS' and q.run_at >= '-infinity'
         order by q.workspace_id, q.priority desc, q.run_at, q.id limit 1)
        union all
        select following.*
        from waiting w
        cross join lateral (
            (select q.workspace_id, q.priority, q.run_at, q.id, q.enqueue_xid
             from pgdispatch.workflow_execution_queue q
             where q.stage = 'WAITS' and q.run_at >= '-infinity' and q.workspace_id = w.workspace_id and q.priority < w.priority
             order by q.priority desc, q.run_at, q.id limit 1)
            union all
            (select q.workspace_id, q.priority, q.run_at, q.id, q.enqueue_xid
             from pgdispatch.workflow_execution_queue q
             where q.stage = 'WAITS' and q.run_at >= '-infinity' and q.workspace_id > w.workspace_id
             order by q.workspace_id, q.priority desc, q.run_at, q.id limit 1)
            limit 1
        ) following
    )
    select * from waiting
$$;
