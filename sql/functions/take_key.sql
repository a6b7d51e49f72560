-- For enqueue: gives a key to an item that this transaction has inserted, if the key's item is still the one that was
-- seen. Otherwise deletes the new item and returns false.
create or replace function pgdispatch.take_key(execution uuid, key text, seen bigint, debounced boolean) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- a plan made while the tables are small must not scan them later
set jit = off
as $$
#variable_conflict use_column
begin
    insert into pgdispatch.enqueue_keys as k (workspace_id, key, item_id, debounced_at)
    select q.workspace_id, take_key.key, q.id, case when debounced then clock_timestamp() end
    from pgdispatch.workflow_execution_queue q
    where q.execution_id = execution and q.enqueue_xid = pg_current_xact_id() and not pgdispatch.kept_out(q.workspace_id)
    on conflict (workspace_id, key) do update set item_id = excluded.item_id, debounced_at = excluded.debounced_at
    where k.item_id = seen;
    if not found then
        delete from pgdispatch.workflow_execution_queue q
        where q.execution_id = execution and q.enqueue_xid = pg_current_xact_id() and not pgdispatch.kept_out(q.workspace_id);
        return false;
    end if;
    return true;
end;
$$;
