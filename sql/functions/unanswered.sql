-- Workspaces with unanswered starts: how many, and since when the first of them was sent. Reads no more than at_most of
-- them, each with its execution. There are few at any time, but in an outage of Temporal.
create or replace function pgdispatch.unanswered(at_most bigint)
returns table (workspace_id uuid, items bigint, since timestamptz)
language sql stable
set search_path = pg_catalog, pg_temp
-- Uses the indexes, whatever the tables looked like at their last ANALYZE.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
    select d.workspace_id, count(*), min(coalesce(e.first_sent_at, d.created_at))
    from (
        select q.workspace_id, q.execution_id, q.created_at
        from pgdispatch.workflow_execution_queue q
        where q.stage = 'DOUBT' order by q.run_at, q.id limit at_most
    ) d
    left join lateral (
        select e.first_sent_at from pgdispatch.workflow_executions e where e.id = d.execution_id offset 0
    ) e on true
    group by d.workspace_id
$$;
