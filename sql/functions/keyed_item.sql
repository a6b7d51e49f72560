-- For enqueue: the ID of the item that holds a key, or null. Checks the values as an insert would, because there may be
-- none.
create or replace function pgdispatch.keyed_item(workspace uuid, definition uuid, key text, params jsonb, priority integer,
    run_at timestamptz, traceparent text, start_options jsonb) returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- a plan made while the tables are small must not scan them later
set jit = off
as $$
begin
    if pgdispatch.kept_out(workspace) then
        raise sqlstate '42501' using
            message = format('workspace %s is not among those of login %s, or not the one that pgdispatch.workspace_id names',
                coalesce(workspace::text, 'null'), session_user),
            hint = 'Insert it for the login into pgdispatch.workspace_roles, or name it in this transaction: '
                'set local pgdispatch.workspace_id = ''...''.';
    end if;
    perform pgdispatch.check_definition(workspace, definition);
    perform pgdispatch.check_values(params, priority, run_at, null, traceparent);
    perform pgdispatch.check_start_options(start_options,
        (select d.start_options from pgdispatch.workflow_definitions d where d.id = definition), true);
    return (select k.item_id from pgdispatch.enqueue_keys k where k.workspace_id = workspace and k.key = keyed_item.key);
end;
$$;
