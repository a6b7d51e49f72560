-- The first item of each line of waiting items: those of a workspace, priority and limit key (null: without one), in
-- this order, after the given line (null: all). Steps through the index, so the cost is that of the rows that the caller
-- takes, who may set a limit. An SQL function without its own search_path, so that it is inlined into the statements
-- that call it.
create or replace function pgdispatch.waiting_lines(after_workspace uuid, after_priority integer, after_key text)
returns table (workspace_id uuid, priority integer, limit_key text, run_at timestamptz, id bigint)
language sql stable
as $$
    {{ template "parts/lines.sql" }}
$$;
