-- The first item of each key queue of waiting items: those of a workspace, priority and limit key (null: without one), in
-- this order, after the given key queue (null: all). Steps through the index, so the cost is that of the rows that the caller
-- takes, who may set a limit. An SQL function without its own search_path, so that it is inlined into the statements
-- that call it.
create or replace function pgdispatch.waiting_queues(after_workspace uuid, after_priority integer, after_key text)
returns table (workspace_id uuid, priority integer, limit_key text, run_at timestamptz, id bigint)
language sql stable
as $$
    {{ template "parts/queues.sql" }}
$$;
