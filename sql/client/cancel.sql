-- How applications cancel a waiting item.

-- name: cancel
-- PENDING -> CANCELLED
-- $1 execution. Returns true if this call withdrew it.
select pgdispatch.cancel($1)

-- function: cancel
-- PENDING -> CANCELLED. Withdraws a waiting item and returns true if this call did it. It does not withdraw an item
-- that was handed over, nor one whose start was sent and never answered: its workflow may be running.
create or replace function pgdispatch.cancel(execution uuid) returns boolean
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
    with cancelled as (
        update pgdispatch.workflow_execution_queue q
        set status = 'CANCELLED', finished_at = clock_timestamp()
        where q.execution_id = execution and q.status = 'PENDING' and not q.outcome_unknown and not pgdispatch.kept_out(q.workspace_id)
        returning q.execution_id
    ), closed as (
        update pgdispatch.workflow_executions e
        set status = 'CANCELED', finished_at = clock_timestamp()
        from cancelled c
        where e.id = c.execution_id
    )
    select exists (select from cancelled);
$$;
