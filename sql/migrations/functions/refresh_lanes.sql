-- Reads limits and heads of these lanes anew. Call it under claim_lock. In plpgsql, which keeps its plan from call to call.
create function pgdispatch.refresh_lanes(workspaces uuid[], at_time timestamptz) returns void
language plpgsql volatile
as $$
begin
    update pgdispatch.lanes l
    -- A workspace that is gone keeps one slot, through which its items are failed one after another.
    set slots = coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows, 1),
        paused = coalesce(w.paused, false),
        at_capacity = l.at_capacity and l.active >= coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows, 1),
        ready_priority = h.ready_priority,
        next_due_at = h.next_due_at
    from unnest(workspaces) as touched (workspace_id)
    left join pgdispatch.workspaces w on w.id = touched.workspace_id
    left join pgdispatch.workspace_tiers t on t.plan = w.plan
    cross join lateral pgdispatch.lane_head(touched.workspace_id, at_time) h
    where l.workspace_id = touched.workspace_id;
end;
$$;
