-- DISPATCHED -> COMPLETED, FAILED. Reports that an execution's workflow has ended; returns true if this call is the
-- first to report it. Anyone may report it, any number of times: the first report counts, the others change nothing. It
-- may be reported before the item is DISPATCHED, because a workflow can end before its start is settled; the settle
-- then applies the end. An execution whose item was deleted while it ran is ended too; otherwise its watcher would
-- return to it forever.
-- reason says why the workflow did not complete; for a completed workflow it is a note on the result. execution_said
-- bounds the size of a result, whoever reports it.
create or replace function pgdispatch.finish(execution uuid, outcome text, reason text default null, result jsonb default null) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
-- Applications call it too. A session that plans it while the tables are small would scan them from end to end once
-- they are large. A scan that is needed anyway then seems so costly that Postgres would compile the statement.
set enable_seqscan = off
set jit = off
as $$
declare
    item_status text;
begin
    if outcome is null or outcome not in ('COMPLETED', 'FAILED', 'CANCELED', 'TERMINATED', 'TIMED_OUT') then
        raise exception 'outcome is %: it must be COMPLETED, FAILED, CANCELED, TERMINATED or TIMED_OUT', coalesce(outcome, 'null')
            using errcode = 'PGD22', hint = 'Use Temporal''s status of the closed workflow.';
    end if;
    update pgdispatch.workflow_execution_queue q
    {{ template "parts/item_ended.sql" "finish" }}
    where q.execution_id = execution and q.status = 'DISPATCHED';
    if not found then
        -- The start may have been sent: the settle waits for this row and then sees what is recorded here.
        select case when q.status = 'PENDING' and not q.outcome_unknown then 'WAITING' else q.status end into item_status
        from pgdispatch.workflow_execution_queue q
        where q.execution_id = execution
        for no key update;
        if item_status = 'DISPATCHED' then
            return pgdispatch.finish(execution, outcome, reason, result); -- settled while this waited
        elsif item_status in ('CLAIMED', 'PENDING') then
            update pgdispatch.workflow_executions e
            set early_outcome = outcome, early_reason = left(reason, 2000), result = finish.result
            where e.id = execution and e.early_outcome is null;
            return found;
        elsif item_status = 'WAITING' then
            return false;
        end if;
    end if;
    update pgdispatch.workflow_executions e
    {{ template "parts/execution_ended.sql" "finish" }}
    where e.id = execution and (e.status = 'RUNNING' or e.status = 'STARTING' and item_status is not null);
    return found and item_status is null;
end;
$$;
