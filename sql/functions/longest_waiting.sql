-- Workspaces with due items or unanswered starts, and since when the longest-due item of each has been due, or its first
-- unanswered start was sent. Looks at no more than at_most of the priority levels and limit keys at which items wait, ordered by
-- workspace ID, and of the unanswered starts, so its cost is bounded, whatever waits.
create or replace function pgdispatch.longest_waiting(at_most bigint)
returns table (workspace_id uuid, waiting_from timestamptz)
language sql stable
set search_path = pg_catalog, pg_temp
-- Uses the index, whatever the table looked like at its last ANALYZE.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
    select l.workspace_id, min(l.since)
    from (
        (select w.workspace_id, w.run_at as since from pgdispatch.waiting_queues(null, null, null) w limit at_most)
        union all
        select u.workspace_id, u.since from pgdispatch.unanswered(at_most) u
    ) l
    where l.since <= clock_timestamp()
    group by l.workspace_id
$$;
