-- How many items of a workspace wait and run, of no more than at_most, and since when the one has been due that has been for longest:
-- by the index of each level of priority that was ever claimed, and not by a count.
create or replace function pgdispatch.waiting_of(workspace uuid, at_most integer, out items bigint, out running bigint, out oldest_due timestamptz)
language sql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
    select (
               select count(*)
               from (select from pgdispatch.workflow_execution_queue q
                     where q.workspace_id = workspace and q.status = 'PENDING' and not q.outcome_unknown and q.run_at >= '-infinity' limit at_most) n
           ),
           (
               select count(*)
               from (select from pgdispatch.workflow_execution_queue q where q.workspace_id = workspace and q.status = 'DISPATCHED' limit at_most) n
           ),
           (
               select min(head.run_at)
               from (select distinct l.priority from unnest('{0}' || (select b.levels from pgdispatch.lane_book b order by b.version desc limit 1)) as l (priority)) level
               cross join lateral (
                   select q.run_at
                   from pgdispatch.workflow_execution_queue q
                   where q.workspace_id = workspace and q.priority = level.priority
                     and q.status = 'PENDING' and not q.outcome_unknown and q.run_at >= '-infinity'
                   order by q.run_at, q.id
                   limit 1
               ) head
               where head.run_at <= clock_timestamp()
           )
$$;
