-- A plan, an override, a pause, a rate or W changed. The change applies from this transaction's commit and may free
-- capacity.
create or replace function pgdispatch.limits_changed() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_table_name = 'workspaces' then
        insert into pgdispatch.marks (workspaces) select array_agg(c.id) from changed c having count(*) > 0;
    elsif tg_table_name = 'limits' then
        insert into pgdispatch.marks (workspaces) select null from (select from changed limit 1) c; -- a cascade may reach none
        if tg_op = 'DELETE' then
            delete from pgdispatch.limit_starts s where s.limit_id in (select c.id from changed c);
        end if;
    else
        insert into pgdispatch.marks (workspaces) values (null); -- all workspaces: a plan may have any number of them
    end if;
    perform pgdispatch.wake();
    return null;
end;
$$;
