-- Notifies applications that listen on pgdispatch_ended of executions that have ended. The payload is their IDs,
-- separated by commas: any role may listen, and an ID is of no use without the right to read the rows. Postgres
-- limits a payload to 8,000 bytes.
create or replace function pgdispatch.announce_ends(executions uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if current_setting('pgdispatch.notify', true) is distinct from 'off' and {{ template "parts/room.sql" }} then
        perform pg_notify('pgdispatch_ended', string_agg(e.id::text, ','))
        from unnest(executions) with ordinality as e (id, place)
        group by (e.place - 1) / 200;
    end if;
end;
$$;
