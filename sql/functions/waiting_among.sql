-- Since when the longest-due item of each of these workspaces has been due; none for one without. One index step for
-- each priority level and limit key, breadth first: at most at_most of them, and the first of every workspace before the
-- second of any.
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
    with recursive line as (
        select w.id as workspace_id, head.*
        from unnest(workspaces) w (id)
        cross join lateral (
            select q.priority, q.limit_key, q.run_at
            from pgdispatch.workflow_execution_queue q
            where q.workspace_id = w.id and q.stage = 'WAITS' and q.run_at >= '-infinity'
            order by q.priority desc, q.limit_key, q.run_at, q.id limit 1
        ) head
        union all
        select l.workspace_id, following.*
        from line l
        cross join lateral (
            (select q.priority, q.limit_key, q.run_at
             from pgdispatch.workflow_execution_queue q
             where q.workspace_id = l.workspace_id and q.stage = 'WAITS' and q.run_at >= '-infinity' and q.priority = l.priority
               and q.limit_key > l.limit_key
             order by q.priority desc, q.limit_key, q.run_at, q.id limit 1)
            union all
            (select q.priority, q.limit_key, q.run_at
             from pgdispatch.workflow_execution_queue q
             where l.limit_key is not null and q.workspace_id = l.workspace_id and q.stage = 'WAITS' and q.run_at >= '-infinity'
               and q.priority = l.priority and q.limit_key is null
             order by q.priority desc, q.limit_key, q.run_at, q.id limit 1)
            union all
            (select q.priority, q.limit_key, q.run_at
             from pgdispatch.workflow_execution_queue q
             where q.workspace_id = l.workspace_id and q.stage = 'WAITS' and q.run_at >= '-infinity' and q.priority < l.priority
             order by q.priority desc, q.limit_key, q.run_at, q.id limit 1)
            limit 1
        ) following
    )
    select l.workspace_id, min(l.run_at)
    from (select l.* from line l limit at_most) l
    where l.run_at <= clock_timestamp()
    group by l.workspace_id
$$;
