-- How many items of a workspace wait, are leased and run, each counted up to at_most, and since when the longest-due
-- one has been due, among its first 1,000 key queues: see waiting_queues. Not by waiting_among, which each call would plan.
create or replace function pgdispatch.waiting_of(workspace uuid, at_most integer, out items bigint, out claimed bigint,
    out running bigint, out oldest_due timestamptz)
language sql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
    with recursive key_queue as (
        (select q.workspace_id, q.priority, q.limit_key, q.run_at, q.id
         from pgdispatch.workflow_execution_queue q
         where q.workspace_id = workspace and q.stage = 'WAITS' and q.run_at >= '-infinity'
         order by q.priority desc, q.limit_key, q.run_at, q.id limit 1)
        union all
        select following.*
        from key_queue l
        cross join lateral (
            {{ template "parts/next_queue.sql" }}
            limit 1
        ) following
    )
    select (
               select count(*)
               from (select from pgdispatch.workflow_execution_queue q
                     where q.workspace_id = workspace and q.stage = 'WAITS' and q.run_at >= '-infinity' limit at_most) n
           ),
           least(h.claimed, at_most),
           least(h.running, at_most),
           (select min(l.run_at) from (select l.run_at from key_queue l limit 1000) l where l.run_at <= clock_timestamp())
    from (
        select count(*) filter (where n.status = 'CLAIMED') as claimed,
               count(*) filter (where n.status = 'DISPATCHED') as running
        from (select q.status from pgdispatch.workflow_execution_queue q
              where q.workspace_id = workspace and q.stage in ('HOLDS', 'DOUBT')
              order by q.lease_token desc limit 2 * at_most) n
    ) h
$$;
