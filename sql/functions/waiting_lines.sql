-- Every workspace with waiting items, each of its priority levels, each limit key that has items there (null for those
-- without), and the first item of each. Steps through the index, so the cost is that of the rows that the caller takes,
-- who may set a limit. An SQL function without its own search_path, so that it is inlined into the statements that call
-- it.
create or replace function pgdispatch.waiting_lines()
returns table (workspace_id uuid, priority integer, limit_key text, run_at timestamptz, id bigint, enqueue_xid xid8)
language sql stable
as $$
    with recursive waiting as (
        (select q.workspace_id, q.priority, q.limit_key, q.run_at, q.id, q.enqueue_xid
         from pgdispatch.workflow_execution_queue q
         where q.stage = 'WAITS' and q.run_at >= '-infinity'
         order by q.workspace_id, q.priority desc, q.limit_key, q.run_at, q.id limit 1)
        union all
        select following.*
        from waiting w
        cross join lateral (
            (select q.workspace_id, q.priority, q.limit_key, q.run_at, q.id, q.enqueue_xid
             from pgdispatch.workflow_execution_queue q
             where q.stage = 'WAITS' and q.run_at >= '-infinity' and q.workspace_id = w.workspace_id and q.priority = w.priority
               and q.limit_key > w.limit_key
             order by q.priority desc, q.limit_key, q.run_at, q.id limit 1)
            union all
            (select q.workspace_id, q.priority, q.limit_key, q.run_at, q.id, q.enqueue_xid
             from pgdispatch.workflow_execution_queue q
             where w.limit_key is not null and q.stage = 'WAITS' and q.run_at >= '-infinity' and q.workspace_id = w.workspace_id
               and q.priority = w.priority and q.limit_key is null
             order by q.priority desc, q.limit_key, q.run_at, q.id limit 1)
            union all
            (select q.workspace_id, q.priority, q.limit_key, q.run_at, q.id, q.enqueue_xid
             from pgdispatch.workflow_execution_queue q
             where q.stage = 'WAITS' and q.run_at >= '-infinity' and q.workspace_id = w.workspace_id and q.priority < w.priority
             order by q.priority desc, q.limit_key, q.run_at, q.id limit 1)
            union all
            (select q.workspace_id, q.priority, q.limit_key, q.run_at, q.id, q.enqueue_xid
             from pgdispatch.workflow_execution_queue q
             where q.stage = 'WAITS' and q.run_at >= '-infinity' and q.workspace_id > w.workspace_id
             order by q.workspace_id, q.priority desc, q.limit_key, q.run_at, q.id limit 1)
            limit 1
        ) following
    )
    select * from waiting
$$;
