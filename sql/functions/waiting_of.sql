-- How many items of a workspace wait, are leased and run, each counted up to at_most, and since when the longest-due
-- one has been due: by an index step for each priority level and limit key, up to 1,000, not by a count.
create or replace function pgdispatch.waiting_of(workspace uuid, at_most integer, out items bigint, out claimed bigint,
    out running bigint, out oldest_due timestamptz)
language sql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
    with recursive level as (
        (select q.priority, q.limit_key, q.run_at
         from pgdispatch.workflow_execution_queue q
         where q.workspace_id = workspace and q.stage = 'WAITS' and q.run_at >= '-infinity'
         order by q.priority desc, q.limit_key, q.run_at, q.id limit 1)
        union all
        select following.*
        from level l
        cross join lateral (
            (select q.priority, q.limit_key, q.run_at
             from pgdispatch.workflow_execution_queue q
             where q.workspace_id = workspace and q.stage = 'WAITS' and q.run_at >= '-infinity' and q.priority = l.priority
               and q.limit_key > l.limit_key
             order by q.priority desc, q.limit_key, q.run_at, q.id limit 1)
            union all
            (select q.priority, q.limit_key, q.run_at
             from pgdispatch.workflow_execution_queue q
             where l.limit_key is not null and q.workspace_id = workspace and q.stage = 'WAITS' and q.run_at >= '-infinity'
               and q.priority = l.priority and q.limit_key is null
             order by q.priority desc, q.limit_key, q.run_at, q.id limit 1)
            union all
            (select q.priority, q.limit_key, q.run_at
             from pgdispatch.workflow_execution_queue q
             where q.workspace_id = workspace and q.stage = 'WAITS' and q.run_at >= '-infinity' and q.priority < l.priority
             order by q.priority desc, q.limit_key, q.run_at, q.id limit 1)
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
           (select min(l.run_at) from (select l.run_at from level l limit 1000) l where l.run_at <= clock_timestamp())
    from (
        select count(*) filter (where n.status = 'CLAIMED') as claimed, count(*) filter (where n.status = 'DISPATCHED') as running
        from (select q.status from pgdispatch.workflow_execution_queue q
              where q.workspace_id = workspace and q.stage in ('HOLDS', 'DOUBT') order by q.lease_token desc limit 2 * at_most) n
    ) h
$$;
