-- What has changed for the lanes since a snapshot: items that arrived, and hints of other moves, which have no item_id. A hint counts in
-- the claim whose snapshot is the first to see it, and in no other. Items of transactions ahead of this cluster's are the sweeper's.
-- Of each span of transactions no more than 1000 items. In SQL without a search_path of its own, so that it becomes part of the statements
-- that call it.
create or replace function pgdispatch.changed_since(seen pg_snapshot)
returns table (item_id bigint, workspace_id uuid, freed integer, priority integer, run_at timestamptz)
language sql stable
as $$
    select late.*
    from (
        {{ template "parts/spans.sql" }}
    ) span
    -- With a limit and an offset, so that the planner asks for each span by itself.
    cross join lateral (
        (select q.id, q.workspace_id, 0, q.priority, q.run_at
         from pgdispatch.workflow_execution_queue q
         where q.status = 'PENDING' and not q.outcome_unknown and q.enqueue_xid between span.first_xid and span.last_xid
         limit 1000)
        union all
        (select null, h.workspace_id, h.freed, h.priority, h.run_at
         from pgdispatch.lane_hints h
         where h.xid between span.first_xid and span.last_xid and pg_visible_in_snapshot(h.xid, (select pg_current_snapshot()))
         offset 0)
    ) late
$$;
