-- Workspaces with items due, and since when the one of each has been due that has been for longest. It looks at no more than at_most of the
-- levels of priority at which items wait, in the order of the workspaces' IDs, so its cost has a bound, whatever waits.
create or replace function pgdispatch.longest_waiting(at_most bigint)
returns table (workspace_id uuid, waiting_from timestamptz)
language sql stable
set search_path = pg_catalog, pg_temp
-- By the index, however the table looked when it was last analyzed.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
    select l.workspace_id, min(l.run_at)
    from (select w.workspace_id, w.run_at from pgdispatch.waiting_levels() w limit at_most) l
    where l.run_at <= clock_timestamp()
    group by l.workspace_id
$$;
