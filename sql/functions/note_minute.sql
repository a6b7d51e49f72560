-- Records how much waits, is claimed and runs, unless a sweep has done so in the present minute. Deletes what is older
-- than a day, of workspaces at most 50,000 rows: two and a half times what 100,000 of them add in a minute.
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
    delete from pgdispatch.workspace_activity a
    where a.ctid = any (array(
        select o.ctid from pgdispatch.workspace_activity o where o.at < present - interval '1 day' order by o.at limit 50000));
end;
$$;
