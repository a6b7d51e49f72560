-- After an update that names a client's column: some are fixed, the others keep the limits of the insert.
create or replace function pgdispatch.refuse_change() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if new.id <> old.id or new.execution_id <> old.execution_id or new.workspace_id <> old.workspace_id
       or new.workflow_definition_id <> old.workflow_definition_id
       -- bring_back sets one that is ahead to now
       or new.created_at <> old.created_at and new.created_at not between statement_timestamp() and old.created_at
       or new.enqueue_xid <> old.enqueue_xid or new.limit_key is distinct from old.limit_key then
        raise exception 'id, execution_id, workspace_id, workflow_definition_id, limit_key and created_at of item % cannot change', old.id
            using errcode = 'PGD21', hint = 'Cancel this item while it is PENDING, and insert a new one.';
    end if;
    if new.start_options is distinct from old.start_options then
        perform pgdispatch.check_start_options(new.start_options,
            (select d.start_options from pgdispatch.workflow_definitions d where d.id = new.workflow_definition_id), true);
    end if;
    perform pgdispatch.check_values(new.params, new.priority, new.run_at, new.idempotency_key, new.traceparent);
    return null;
end;
$$;
