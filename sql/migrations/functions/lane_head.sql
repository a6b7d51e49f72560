-- The highest priority with a due item in a workspace, and when an item that is not due yet will outrank it.
-- Steps from one level of priority to the next by index, so the cost is the levels passed, not the items waiting.
create function pgdispatch.lane_head(workspace uuid, at_time timestamptz, out ready_priority integer, out next_due_at timestamptz)
language plpgsql stable
as $$
declare
    level record;
    below integer := 2147483647;
begin
    loop
        select q.priority, q.run_at into level
        from pgdispatch.workflow_execution_queue q
        where q.workspace_id = workspace and q.status = 'PENDING' and not q.outcome_unknown and q.priority < below
        order by q.priority desc, q.run_at, q.id
        limit 1;
        exit when not found;
        if level.run_at <= at_time then
            ready_priority := level.priority;
            exit;
        end if;
        next_due_at := least(next_due_at, level.run_at);
        below := level.priority;
    end loop;
end;
$$;
