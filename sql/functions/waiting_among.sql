-- Since when the longest-due item of each of these workspaces has been due; none for one without. One index step for
-- each of their key queues (see waiting_queues), breadth first: at most at_most of them, and the first of every workspace
-- before the second of any.
create or replace function pgdispatch.waiting_among(workspaces uuid[], at_most integer)
returns table (workspace_id uuid, oldest_due timestamptz)
language sql stable
set search_path = pg_catalog, pg_temp
-- Uses the index, whatever the table looked like at its last ANALYZE.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
    with recursive key_queue as (
        select head.*
        from unnest(workspaces) w (id)
        cross join lateral (
            select q.workspace_id, q.priority, q.limit_key, q.run_at, q.id
            from pgdispatch.workflow_execution_queue q
            where q.workspace_id = w.id and q.stage = 'WAITS' and q.run_at >= '-infinity'
            order by q.priority desc, q.limit_key, q.run_at, q.id limit 1
        ) head
        union all
        select following.*
        from key_queue l
        cross join lateral (
            {{ template "parts/next_queue.sql" }}
            limit 1
        ) following
    )
    select l.workspace_id, min(l.run_at)
    from (select l.* from key_queue l limit at_most) l
    where l.run_at <= clock_timestamp()
    group by l.workspace_id
$$;
