-- After every move except those of the hand-over. Rejects invalid transitions. If an item waits again or freed a slot
-- of its workspace, tells the replicas to look at the workspace.
create or replace function pgdispatch.item_moved() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    -- new is null after a delete.
    waits boolean := new.stage is not distinct from 'WAITS';
    freed boolean := old.stage in ('HOLDS', 'DOUBT') and (new.stage in ('HOLDS', 'DOUBT')) is not true;
    ends text := case when old.finished_at is null and new.finished_at is not null then new.status end;
begin
    if not coalesce(old.stage in ('HOLDS', 'DOUBT'), false) and new.stage in ('HOLDS', 'DOUBT') and new.lease_token <= old.lease_token then
        raise exception 'item % cannot take a slot without a claim', old.id
            using errcode = 'PGD20', hint = 'Only pgdispatch''s claim can give an item a slot.';
    elsif current_setting('session_replication_role') = 'replica' then
        return null; -- the move was checked where it was made
    elsif not pgdispatch.may_move(old.status, new.status) then -- null after a delete
        raise exception 'item % is % and cannot become %', old.id, old.status, new.status
            using errcode = 'PGD20', hint = 'docs/lifecycle.md lists the allowed transitions.';
    end if;
    -- Any change of a waiting item matters, unless nobody else can see it yet: a claim that had chosen the row before
    -- skips the new version, and its replica believes that nothing is left.
    if old.status = new.status and not (waits and (old.stage <> 'WAITS' or old.priority <> new.priority or old.run_at <> new.run_at
                                                   or old.enqueue_xid <> pg_current_xact_id()))
       and not (new.stage = 'DOUBT' and old.run_at <> new.run_at) then
        return null; -- nothing that matters to a claim
    end if;
    insert into pgdispatch.marks (workspaces, limit_keys, priority, due, completed, failed, cancelled)
    values (array[old.workspace_id], case when old.limit_key is not null then array[old.limit_key] end,
            case when waits then new.priority end, case when waits then new.run_at end,
            (ends is not distinct from 'COMPLETED')::integer, (ends is not distinct from 'FAILED')::integer,
            (ends is not distinct from 'CANCELLED')::integer);
    if ends is not null and (select s.notify_ended from pgdispatch.settings s) then
        perform pgdispatch.announce_ends(array[old.execution_id]);
    end if;
    if waits or new.stage = 'DOUBT' or freed and old.limit_key is not null then -- others may wait for the key
        perform pgdispatch.wake();
    elsif freed then
        perform pgdispatch.wake_for(array[old.workspace_id]);
    end if;
    return null;
end;
$$;
