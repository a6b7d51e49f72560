-- What a lane has to offer: the highest priority with a due item, when an item that is not due yet falls due, and the earliest
-- run_at among the items that are due. Each level of priority is one step into the index, and begins behind what
-- has been claimed before, so the cost is the levels, not the items that wait or waited. In SQL without a search_path of its
-- own, so that it becomes part of the statements that call it. A level whose next items are all of closed namespaces has none that is
-- due; its lane is looked at again in a while.
create or replace function pgdispatch.lane_head(workspace uuid, at_time timestamptz, waiting_from timestamptz, levels integer[],
                                     own_namespace text, closed text[])
returns table (due_priority integer, next_due_at timestamptz, oldest_due timestamptz)
language sql stable
as $$
    select max(f.priority) filter (where f.run_at <= at_time and not f.passed_over),
           least(min(f.run_at) filter (where f.run_at > at_time),
                 case when max(f.priority) filter (where f.run_at <= at_time)
                           is distinct from max(f.priority) filter (where f.run_at <= at_time and not f.passed_over)
                      then at_time + interval '3 seconds' end),
           min(f.run_at) filter (where f.run_at <= at_time)
    from (
        select level.priority, head.run_at,
               cardinality(closed) > 0 and pgdispatch.passed_over(workspace, level.priority, waiting_from, at_time, own_namespace, closed) as passed_over
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
