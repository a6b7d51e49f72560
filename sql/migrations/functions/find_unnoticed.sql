-- Rows whose trigger did not fire (session_replication_role, logical replication, a disabled trigger) left no hint, and
-- a claim would not know of them. Looks at every workspace with items waiting, leaves a hint where a due item is not
-- known to its lane, and returns how many it left.
create function pgdispatch.find_unnoticed() returns integer
language sql volatile
as $$
    with recursive waiting as (
        (select q.workspace_id
         from pgdispatch.workflow_execution_queue q
         where q.status = 'PENDING' and not q.outcome_unknown
         order by q.workspace_id limit 1)
        union all
        select following.workspace_id
        from waiting w
        cross join lateral (
            select q.workspace_id
            from pgdispatch.workflow_execution_queue q
            where q.status = 'PENDING' and not q.outcome_unknown and q.workspace_id > w.workspace_id
            order by q.workspace_id limit 1
        ) following
    ), hinted as (
        insert into pgdispatch.lane_hints (workspace_id)
        select w.workspace_id
        from waiting w
        left join pgdispatch.lanes l on l.workspace_id = w.workspace_id
        cross join lateral pgdispatch.lane_head(w.workspace_id, clock_timestamp()) h
        where (l.workspace_id is null or (l.ready_priority is null and (l.next_due_at is null or l.next_due_at > clock_timestamp())))
          and h.ready_priority is not null
          -- A hint that no claim has folded yet says it already.
          and not exists (select from pgdispatch.lane_hints k where k.workspace_id = w.workspace_id)
        returning workspace_id
    )
    select count(*)::integer from hinted;
$$;
