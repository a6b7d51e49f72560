-- CLAIMED -> DISPATCHED was settled after the workflow's end was reported: applies that end.
create or replace function pgdispatch.end_early() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Checked here: every statement would parse a condition of the trigger again.
    if old.status = 'STARTING' and new.status = 'RUNNING' then
        perform pgdispatch.finish(new.id, new.early_outcome, new.early_reason);
    end if;
    return null;
end;
$$;
