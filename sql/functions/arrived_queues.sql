-- waiting_queues, of the items that one transaction has enqueued. The IDs are 0.
create or replace function pgdispatch.arrived_queues(xid xid8, after_workspace uuid, after_priority integer, after_key text)
returns table (workspace_id uuid, priority integer, limit_key text, run_at timestamptz, id bigint)
language sql stable
as $$
    {{ template "parts/queues.sql" "xid" }}
$$;
