-- What a lane has to offer: the highest priority with a due item, when an item that is not due yet falls due, and the earliest
-- run_at among the items that are due. Each level of priority is one step into the index, and begins behind what
-- has been claimed before, so the cost is the levels, not the items that wait or waited. In SQL without a search_path of its
-- own, so that it becomes part of the statements that call it.
create function pgdispatch.lane_head(workspace uuid, at_time timestamptz, waiting_from timestamptz, levels integer[])
returns table (due_priority integer, next_due_at timestamptz, oldest_due timestamptz)
language sql stable
as $$
    select max(f.priority) filter (where f.run_at <= at_time),
           min(f.run_at) filter (where f.run_at > at_time),
           min(f.run_at) filter (where f.run_at <= at_time)
    from (
        select level.priority, head.run_at
        from unnest(levels) as level (priority)
        cross join lateral (
            select q.run_at
            from pgdispatch.workflow_execution_queue q
            where q.workspace_id = workspace and q.priority = level.priority
              and q.status = 'PENDING' and not q.outcome_unknown and q.run_at >= waiting_from
            order by q.run_at, q.id
            limit 1
        ) head
    ) f
$$;
