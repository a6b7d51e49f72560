-- How many items of a workspace wait, are leased and run, each counted up to at_most, and since when the longest-due
-- one has been due, among its first 1,000 lines: see waiting_among.
create or replace function pgdispatch.waiting_of(workspace uuid, at_most integer, out items bigint, out claimed bigint,
    out running bigint, out oldest_due timestamptz)
language sql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
    select (
               select count(*)
               from (select from pgdispatch.workflow_execution_queue q
                     where q.workspace_id = workspace and q.stage = 'WAITS' and q.run_at >= '-infinity' limit at_most) n
           ),
           least(h.claimed, at_most),
           least(h.running, at_most),
           (select w.oldest_due from pgdispatch.waiting_among(array[workspace], 1000) w)
    from (
        select count(*) filter (where n.status = 'CLAIMED') as claimed,
               count(*) filter (where n.status = 'DISPATCHED') as running
        from (select q.status from pgdispatch.workflow_execution_queue q
              where q.workspace_id = workspace and q.stage in ('HOLDS', 'DOUBT')
              order by q.lease_token desc limit 2 * at_most) n
    ) h
$$;
