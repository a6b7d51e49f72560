-- Counts every lane anew from the items and corrects it. Returns how many lanes were wrong; 0 is what is expected.
-- Slots that were given back but not folded yet are in lane_hints: they are counted as active until they are folded.
create or replace function pgdispatch.recount_lanes() returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
declare
    wrong integer;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'recount_lanes needs READ COMMITTED, this transaction is %', current_setting('transaction_isolation')
            using errcode = 'PGD30', hint = 'BEGIN ISOLATION LEVEL READ COMMITTED, or call it outside a transaction.';
    end if;
    lock table pgdispatch.claim_lock in share row exclusive mode;

    -- One statement, so that items and hints are read at the same instant.
    with counted as (
        select c.workspace_id, sum(c.active)::integer as active
        from (
            select q.workspace_id, 1 as active from pgdispatch.workflow_execution_queue q where q.status = 'CLAIMED'
            union all
            select q.workspace_id, 1 from pgdispatch.workflow_execution_queue q
            where q.status = 'DISPATCHED' and q.workspace_id >= '00000000-0000-0000-0000-000000000000'
            union all
            select q.workspace_id, 1 from pgdispatch.workflow_execution_queue q where q.status = 'PENDING' and q.outcome_unknown
            union all
            select h.workspace_id, h.freed
            from pgdispatch.lane_hints h, pgdispatch.lane_book b
            where not pg_visible_in_snapshot(h.xid, b.seen)
        ) c
        group by c.workspace_id
    ), corrected as (
        update pgdispatch.lanes l
        -- A claim must look at it again: it may be full no longer, and what it knew of its items is as old as its last look.
        set active = coalesce(c.active, 0), version = nextval('pgdispatch.lane_versions'),
            slots = greatest(l.slots, coalesce(c.active, 0) + 1), paused = false, ready_priority = null, next_due_at = clock_timestamp()
        from pgdispatch.lanes k
        left join counted c on c.workspace_id = k.workspace_id
        where l.workspace_id = k.workspace_id and l.active <> coalesce(c.active, 0)
        returning l.workspace_id
    ), added as (
        insert into pgdispatch.lanes (workspace_id, version, active)
        select c.workspace_id, nextval('pgdispatch.lane_versions'), c.active from counted c
        where c.active > 0 and not exists (select from pgdispatch.lanes l where l.workspace_id = c.workspace_id)
        returning workspace_id
    )
    select count(*) into wrong from (select workspace_id from corrected union all select workspace_id from added) x;
    return wrong;
end;
$$;
