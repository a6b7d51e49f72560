-- What was enqueued after the snapshot seen and is in the snapshot sees: of each transaction its first key queues, at_most, in
-- the order of waiting_queues. A transaction with so many may have more. The cost is an index step for each transaction
-- and key queue, however many items there are.
create or replace function pgdispatch.arrivals(seen pg_snapshot, sees pg_snapshot, at_most integer)
returns table (xid xid8, workspace_id uuid, priority integer, limit_key text, run_at timestamptz)
language sql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
    with recursive given as (select arrivals.seen, arrivals.sees), span as materialized (
    {{ template "parts/spans.sql" }}
    ), came as (
        select s.last_xid, (select q.enqueue_xid from pgdispatch.workflow_execution_queue q
                            where q.stage = 'WAITS' and q.enqueue_xid between s.first_xid and s.last_xid
                            order by q.enqueue_xid limit 1) as xid
        from span s
        union all
        select c.last_xid, (select q.enqueue_xid from pgdispatch.workflow_execution_queue q
                            where q.stage = 'WAITS' and q.enqueue_xid > c.xid and q.enqueue_xid <= c.last_xid
                            order by q.enqueue_xid limit 1)
        from came c
        where c.xid is not null
    )
    select c.xid, l.workspace_id, l.priority, l.limit_key, l.run_at
    from came c
    cross join lateral (select l.* from pgdispatch.arrived_queues(c.xid, null, null, null) l limit at_most) l
$$;
