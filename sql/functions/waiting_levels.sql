-- Every workspace with items waiting, and each of its levels of priority, with the first item of each: by stepping through the
-- index, so the cost is the rows returned. It asks nobody's books.
create or replace function pgdispatch.waiting_levels()
returns table (workspace_id uuid, priority integer, run_at timestamptz, enqueue_xid xid8)
language sql stable
as $$
    with recursive waiting as (
        (select q.workspace_id, q.priority, q.run_at, q.enqueue_xid
         from pgdispatch.workflow_execution_queue q
         where q.status = 'PENDING' and not q.outcome_unknown and q.run_at >= '-infinity'
         order by q.workspace_id, q.priority desc, q.run_at, q.id limit 1)
        union all
        select following.*
        from waiting w
        cross join lateral (
            (select q.workspace_id, q.priority, q.run_at, q.enqueue_xid
             from pgdispatch.workflow_execution_queue q
             where q.status = 'PENDING' and not q.outcome_unknown and q.run_at >= '-infinity' and q.workspace_id = w.workspace_id and q.priority < w.priority
             order by q.priority desc, q.run_at, q.id limit 1)
            union all
            (select q.workspace_id, q.priority, q.run_at, q.enqueue_xid
             from pgdispatch.workflow_execution_queue q
             where q.status = 'PENDING' and not q.outcome_unknown and q.run_at >= '-infinity' and q.workspace_id > w.workspace_id
             order by q.workspace_id, q.priority desc, q.run_at, q.id limit 1)
            limit 1
        ) following
    )
    select * from waiting
$$;
