-- An item waits again, or gave its workspace's slot back: its lane must be looked at, and a dispatcher may have work.
create function pgdispatch.item_moved() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    -- new is null after a delete.
    freed integer := case when old.holds_slot and new.holds_slot is not true then 1 else 0 end;
begin
    insert into pgdispatch.lane_hints (workspace_id, freed) values (old.workspace_id, freed);
    if new.status = 'PENDING' or exists (
        select from pgdispatch.workflow_execution_queue q
        where q.workspace_id = old.workspace_id and q.status = 'PENDING' and not q.outcome_unknown
    ) then
        perform pgdispatch.wake();
    end if;
    return null;
end;
$$;
