-- The first item of each line of waiting items: those of a workspace, priority and limit key (null: without one). Steps
-- through the index, so the cost is that of the rows that the caller takes, who may set a limit. An SQL function without
-- its own search_path, so that it is inlined into the statements that call it. enqueue_xid is null and not read; a
-- migration of the next version drops it, with waiting_levels.
create or replace function pgdispatch.waiting_lines()
returns table (workspace_id uuid, priority integer, limit_key text, run_at timestamptz, id bigint, enqueue_xid xid8)
language sql stable
as $$
    with recursive line as (
        (select q.workspace_id, q.priority, q.limit_key, q.run_at, q.id
         from pgdispatch.workflow_execution_queue q
         where q.stage = 'WAITS' and q.run_at >= '-infinity'
         order by q.workspace_id, q.priority desc, q.limit_key, q.run_at, q.id limit 1)
        union all
        select following.*
        from line l
        cross join lateral (
            {{ template "parts/next_line.sql" }}
            union all
            (select q.workspace_id, q.priority, q.limit_key, q.run_at, q.id
             from pgdispatch.workflow_execution_queue q
             where q.stage = 'WAITS' and q.run_at >= '-infinity' and q.workspace_id > l.workspace_id
             order by q.workspace_id, q.priority desc, q.limit_key, q.run_at, q.id limit 1)
            limit 1
        ) following
    )
    select l.*, null::xid8 from line l
$$;
