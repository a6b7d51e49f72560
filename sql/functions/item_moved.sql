-- After every move but those of the hand-over. A move that there is not is refused; where an item waits again or gave its
-- workspace's slot back, its lane must be looked at, and a dispatcher may have work.
create or replace function pgdispatch.item_moved() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    -- new is null after a delete.
    freed boolean := pgdispatch.holds_slot(old.status, old.outcome_unknown)
                     and pgdispatch.holds_slot(new.status, new.outcome_unknown) is not true;
    waits boolean := coalesce(new.status = 'PENDING' and not new.outcome_unknown, false);
begin
    if not pgdispatch.may_move(old.status, new.status) then -- null after a delete
        raise exception 'item % is %, it cannot become %', old.id, old.status, new.status
            using errcode = 'PGD20', hint = 'docs/lifecycle.md has the moves there are.';
    end if;
    if old.status = new.status and not (waits and (old.outcome_unknown or old.priority <> new.priority or old.run_at <> new.run_at)) then
        return null; -- nothing that a claim looks at
    end if;
    insert into pgdispatch.lane_hints (workspace_id, freed, priority, run_at, ended)
    values (old.workspace_id, freed::integer, case when waits then new.priority end, case when waits then new.run_at end,
            case when old.finished_at is null and new.finished_at is not null then new.status end);
    if {{ template "parts/sleeps.sql" }} then
        -- A slot that came free is of use to those that wait only. Asked apart, because a row pays for a query even where nobody sleeps.
        if new.status = 'PENDING' or not freed or exists (
            select from pgdispatch.workflow_execution_queue q
            where q.workspace_id = old.workspace_id and q.status = 'PENDING' and not q.outcome_unknown and q.run_at >= '-infinity'
        ) then
            perform pg_notify('pgdispatch', '');
        end if;
    end if;
    return null;
end;
$$;
