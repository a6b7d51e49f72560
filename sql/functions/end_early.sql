-- CLAIMED -> DISPATCHED was settled, and somebody had said before that the workflow has ended.
create or replace function pgdispatch.end_early() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Asked here: a trigger's condition is read anew by every statement.
    if old.status = 'STARTING' and new.status = 'RUNNING' then
        perform pgdispatch.finish(new.id, new.early_outcome, new.early_reason);
    end if;
    return null;
end;
$$;
