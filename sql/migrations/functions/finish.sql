-- DISPATCHED -> COMPLETED, FAILED. Says that an execution has ended; true if this call is the one that ended it.
-- Anyone may say it, and any number of times: the first counts, the others change nothing. An execution whose item was
-- deleted while it ran is ended too, or its watcher would come back to it for ever.
create function pgdispatch.finish(execution uuid, outcome text, reason text default null) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    moved boolean;
begin
    if outcome is null or outcome not in ('COMPLETED', 'FAILED', 'CANCELED', 'TERMINATED', 'TIMED_OUT') then
        raise exception 'outcome is %, it must be COMPLETED, FAILED, CANCELED, TERMINATED or TIMED_OUT', coalesce(outcome, 'null')
            using errcode = 'PGD22', hint = 'Use the name that Temporal gives the closed workflow.';
    end if;
    update pgdispatch.workflow_execution_queue q
    set status = case outcome when 'COMPLETED' then 'COMPLETED' else 'FAILED' end,
        last_error = case outcome when 'COMPLETED' then null else left(coalesce(nullif(reason, ''), 'workflow ' || lower(outcome)), 2000) end,
        finished_at = clock_timestamp()
    where q.execution_id = execution and q.status = 'DISPATCHED';
    moved := found;
    if not moved and exists (select from pgdispatch.workflow_execution_queue q where q.execution_id = execution) then
        return false;
    end if;
    update pgdispatch.workflow_executions e
    set status = outcome,
        error = case outcome when 'COMPLETED' then null else left(reason, 2000) end,
        finished_at = clock_timestamp(),
        watcher = null
    where e.id = execution and (moved or e.status = 'RUNNING');
    return moved or found;
end;
$$;
