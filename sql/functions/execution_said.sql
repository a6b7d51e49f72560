-- An application may report a workflow's end by updating its execution's status, instead of calling finish. This
-- trigger fills in the other columns and moves the item. pgdispatch's own statements move the item first and pass
-- through. The trigger holds the execution's lock and must not wait for the item's: its holder may wait for the
-- execution.
create or replace function pgdispatch.execution_said() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    outcome text := new.status;
    reason text := left(new.error, 2000);
    item_id bigint;
    item_status text;
    unknown boolean;
    most integer;
begin
    if outcome not in ('COMPLETED', 'FAILED', 'CANCELED', 'TERMINATED', 'TIMED_OUT') then
        return new; -- checked here: every statement would parse a condition of the trigger again
    end if;
    if old.finished_at is not null then
        return null; -- the first report counts
    end if;
    if new.result is not null then
        select s.result_bytes into most from pgdispatch.settings s;
        if outcome <> 'COMPLETED' or octet_length(new.result::text) > most then
            new.result_note := case when outcome = 'COMPLETED' and most > 0 then
                format('%s bytes: exceeds result-bytes, %s', octet_length(new.result::text), most) end;
            new.result := null;
        end if;
    end if;
    select q.id, q.status, q.outcome_unknown into item_id, item_status, unknown
    from pgdispatch.workflow_execution_queue q
    where q.execution_id = new.id;
    if item_status = 'PENDING' and not unknown then
        raise exception 'execution % has not started and cannot be %', new.id, outcome
            using errcode = 'PGD26', hint = 'Use pgdispatch.cancel to withdraw a PENDING item, or pgdispatch.finish to report a workflow''s end.';
    end if;
    if item_status = 'DISPATCHED' then
        perform from pgdispatch.workflow_execution_queue q where q.id = item_id and q.status = 'DISPATCHED' for no key update skip locked;
    end if;
    if item_status in ('PENDING', 'CLAIMED') or (item_status = 'DISPATCHED' and not found) then
        -- The item's holder settles or ends it.
        old.early_reason := coalesce(old.early_reason, case when old.early_outcome is null then coalesce(reason, new.result_note) end);
        old.result := case when old.early_outcome is null then new.result else old.result end;
        old.early_outcome := coalesce(old.early_outcome, outcome);
        return old;
    end if;
    if item_status = 'DISPATCHED' then
        update pgdispatch.workflow_execution_queue q
        set status = case outcome when 'COMPLETED' then 'COMPLETED' else 'FAILED' end,
            last_error = case outcome when 'COMPLETED' then null else coalesce(nullif(reason, ''), 'workflow ' || lower(outcome)) end,
            finished_at = clock_timestamp()
        where q.id = item_id;
        new.watcher := null;
    end if;
    new.finished_at := coalesce(new.finished_at, clock_timestamp());
    return new;
end;
$$;
