-- waiting_lines as replicas of the version before call it. A migration of the next version drops it.
create or replace function pgdispatch.waiting_levels()
returns table (workspace_id uuid, priority integer, run_at timestamptz, id bigint, enqueue_xid xid8)
language sql stable
as $$
    select l.workspace_id, l.priority, l.run_at, l.id, l.enqueue_xid from pgdispatch.waiting_lines() l
$$;
