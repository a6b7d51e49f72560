-- A plan, an override, a pause or W was changed: it holds from this transaction's commit, and may free capacity.
create or replace function pgdispatch.limits_changed() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    case tg_table_name
    when 'workspaces' then
        insert into pgdispatch.lane_hints (workspace_id) select c.id from changed c;
    when 'workspace_tiers' then
        insert into pgdispatch.lane_hints (workspace_id)
        select w.id
        from changed c
        join pgdispatch.workspaces w on w.plan = c.plan
        join pgdispatch.lanes l on l.workspace_id = w.id;
    else
        null;
    end case;
    perform pgdispatch.wake();
    return null;
end;
$$;
