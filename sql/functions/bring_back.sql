-- PENDING -> PENDING; CLAIMED -> CLAIMED. What a sweeper calls when the database's clock was set back: a stored time that
-- is further ahead than its own period means now. Whatever waits for such a time would wait until the clock has passed
-- it. Less than a second is ignored. A time that an application asked for is left as it is.
--
-- Returns how many rows were changed, at most at_most of each kind; whether there may be more; and the first transaction
-- ID that was not given out yet: once all earlier transactions have ended, call it again, because they may have stored
-- times from before. Changes nothing, and takes no lock, if nothing is ahead. Waits for no row. Durable, because the
-- caller remembers that it is done.
create or replace function pgdispatch.bring_back(at_most integer, out times integer, out more boolean, out open_to bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    at_time constant timestamptz := clock_timestamp();
    waits integer; -- of what replicas keep in memory
begin
    open_to := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    waits := pgdispatch.bring_back_rates(at_time, at_most);
    if waits > 0 then
        insert into pgdispatch.marks (workspaces) values (null);
        perform pgdispatch.wake();
    end if;
    times := waits + pgdispatch.bring_back_items(at_time, at_most) + pgdispatch.bring_back_turns(at_time, at_most)
        + pgdispatch.bring_back_tries(at_time, at_most);
    more := times >= at_most;
    perform pgdispatch.commit_durably() where times > 0;
end;
$$;
