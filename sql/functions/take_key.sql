-- For enqueue: gives a key to an item that this transaction has inserted, if the key's item is still the one that was
-- seen. Otherwise deletes the new item and returns false.
create or replace function pgdispatch.take_key(execution uuid, key text, seen bigint) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- a plan made while the tables are small must not scan them later
set jit = off
as $$
#variable_conflict use_column
begin
    insert into pgdispatch.enqueue_keys as k (workspace_id, key, item_id)
    select q.workspace_id, take_key.key, q.id
    from pgdispatch.workflow_execution_queue q
    where q.execution_id = execution and q.enqueue_xid = pg_current_xact_id() and not pgdispatch.kept_out(q.workspace_id)
    on conflict (workspace_id, key) do update set item_id = excluded.item_id
    where k.item_id = seen;
    if not found then
        delete from pgdispatch.workflow_execution_queue q
        where q.execution_id = execution and q.enqueue_xid = pg_current_xact_id() and not pgdispatch.kept_out(q.workspace_id);
        return false;
    end if;
    return true;
end;
$$;
