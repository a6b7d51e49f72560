-- Records how much waits, is claimed and runs, unless a sweep has done so in the present minute. Deletes what is older
-- than a day.
create or replace function pgdispatch.note_minute() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    present constant timestamptz := date_trunc('minute', clock_timestamp());
begin
    if exists (select from pgdispatch.activity a where a.minute = present and a.waiting is not null) then
        return;
    end if;
    -- Every sweep locks the present minute first, then the old rows.
    insert into pgdispatch.activity as a (minute, waiting, claimed, running)
    select present, d.pending, d.claimed, d.dispatched
    from pgdispatch.queue_depth(10000) d
    on conflict (minute) do update
    set waiting = excluded.waiting, claimed = excluded.claimed, running = excluded.running
    where a.waiting is null;
    delete from pgdispatch.activity a where a.minute < present - interval '1 day';
end;
$$;
