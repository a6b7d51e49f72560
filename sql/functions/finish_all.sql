-- DISPATCHED -> COMPLETED, FAILED. finish for several executions at once, at a fifth of the cost of single calls. It
-- does not wait for locked rows, which would hold up the others.
-- Returns the executions that it ended (first is true) and those that had already ended. Those that are missing are
-- left to finish: the row is locked, or the item is not yet DISPATCHED, or is gone. Results are JSON; one that Postgres
-- rejects is omitted, and the execution says so.
create or replace function pgdispatch.finish_all(executions uuid[], outcomes text[], reasons text[], results text[])
returns table (execution uuid, first boolean)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
-- As in claim: statistics must not make the planner avoid the indexes.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
    held uuid[];
    freed uuid[]; keys text[];
    marked text;
    announced boolean;
begin
    held := array(
        select e.id
        from pgdispatch.workflow_execution_queue q
        join pgdispatch.workflow_executions e on e.id = q.execution_id
        where q.execution_id = any (executions) and q.status = 'DISPATCHED' and e.status = 'RUNNING'
        for no key update of q, e skip locked
    );
    -- One mark and one notification for all ends, instead of one each: see item_moved. execution_said need not check
    -- these rows: the items are ended and the results are bounded here.
    marked := set_config('pgdispatch.marked', 'on', true);
    with ended as (
        update pgdispatch.workflow_execution_queue q
        {{ template "parts/item_ended.sql" "s" }}
        from unnest(executions, outcomes, reasons) as s (execution, outcome, reason)
        where q.execution_id = s.execution and s.execution = any (held)
        returning q.workspace_id, q.limit_key, q.status
    ), noted as (
        insert into pgdispatch.marks (workspaces, limit_keys, completed, failed, completed_of, failed_of)
        select array_agg(e.workspace_id), (select array_agg(distinct k.limit_key) from ended k where k.limit_key is not null),
               sum(e.completed), sum(e.failed), array_agg(e.completed), array_agg(e.failed)
        from (select e.workspace_id, count(*) filter (where e.status = 'COMPLETED') as completed,
                     count(*) filter (where e.status = 'FAILED') as failed from ended e group by e.workspace_id) e
        having count(*) > 0 returning workspaces, limit_keys
    )
    select n.workspaces, n.limit_keys, s.notify_ended into freed, keys, announced from noted n cross join pgdispatch.settings s;
    update pgdispatch.workflow_executions e
    {{ template "parts/execution_ended.sql" "s" }}
    from (
        select g.execution, g.outcome, case when r.fits then r.result end as result,
               case when g.given is not null and r.result is null then 'JSON that Postgres rejects: not stored'
                    when g.outcome = 'COMPLETED' and not r.fits and r.most > 0
                    then format('%s bytes: exceeds result-bytes, %s', octet_length(r.result::text), r.most)
                    else g.reason end as reason
        from unnest(executions, outcomes, reasons, results) as g (execution, outcome, reason, given)
        cross join lateral (
            select r.result, s.result_bytes as most, g.outcome = 'COMPLETED' and octet_length(r.result::text) <= s.result_bytes as fits
            from pgdispatch.settings s
            cross join lateral (select case when g.given is not null then pgdispatch.result_of(g.given) end as result offset 0) r
            offset 0
        ) r
    ) s
    where e.id = s.execution and s.execution = any (held);
    marked := set_config('pgdispatch.marked', 'off', true);
    perform pgdispatch.wake() where keys is not null; -- others may wait for the keys
    perform pgdispatch.wake_for(freed) where freed is not null and keys is null;
    perform pgdispatch.announce_ends(held) where announced;
    return query
    select h.id, true from unnest(held) as h (id)
    union all
    select e.id, false
    from pgdispatch.workflow_executions e
    join pgdispatch.workflow_execution_queue q on q.execution_id = e.id
    where e.id = any (executions) and e.id <> all (held) and e.finished_at is not null and q.finished_at is not null;
end;
$$;
