-- PENDING -> CLAIMED, for claim: everything that arrived since the last claim, where there is room for all of it and nothing else waits
-- in a workspace with room, which the caller knows. Then no turn has to be found, nor what a lane has left: it has nothing.
-- Returns what was given and books it, or returns null and has changed nothing: so wherever anything is not as simple as that, and where
-- somebody has one of the items locked.
create function pgdispatch.claim_arrived(owner text, room integer, lease interval, start_time timestamptz, seen pg_snapshot, book_at tid,
    levels integer[], last_token bigint, turn bigint, aged_before timestamptz) returns bigint[]
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    sees pg_snapshot;
    ids bigint[];
    workspaces uuid[];
    freed integer[];
    items bigint;
    simple boolean;
    given bigint[];
begin
    -- Simple are ends of workflows, and new items that are due; a hint of anything else may have changed a limit or brought an item back.
    select pg_current_snapshot(), array_agg(c.item_id), array_agg(c.workspace_id), array_agg(c.freed), count(c.item_id),
           bool_and(case when c.item_id is null then c.freed > 0 and c.priority is null
                         else c.run_at between aged_before and start_time and c.priority = any (levels) end)
    into sees, ids, workspaces, freed, items, simple
    from pgdispatch.changed_since(seen) c;
    if not coalesce(simple, false) or items not between 1 and least(room, 999) then
        return null;
    end if;

    with lane as materialized (
        select n.*, l.at, greatest(l.active - n.freed, 0) as active,
               l.at is not null and l.ready_priority is null and l.next_due_at is null and l.starts_per_second is null
                   and (n.items = 0 or not l.paused and greatest(l.active - n.freed, 0) + n.items <= l.slots) as fits
        from (
            select u.workspace_id, sum(u.freed)::integer as freed, count(u.item_id)::integer as items
            from unnest(ids, workspaces, freed) as u (item_id, workspace_id, freed)
            group by u.workspace_id
        ) n
        left join lateral (
            select l.ctid as at, l.* from pgdispatch.lanes l where l.workspace_id = n.workspace_id order by l.version desc limit 1
        ) l on true
    ), heads as materialized (
        select q.ctid as at
        from pgdispatch.workflow_execution_queue q
        where q.id = any (ids) and q.status = 'PENDING' and not q.outcome_unknown and (select bool_and(l.fits) from lane l)
        for update skip locked
    ), every as materialized (
        select count(*) = items as held from heads h
    ), taken as (
        {{ template "parts/take.sql" }}
        where q.ctid = any (array(select h.at from heads h where (select e.held from every e))) -- they are locked, so that is where they stay
        returning q.id
    ), written as (
        update pgdispatch.lanes l
        set version = a.version,
            active = a.active + a.items,
            waiting_from = start_time,
            last_served = case when a.items > 0 then a.version else l.last_served end
        from (select n.*, nextval('pgdispatch.lane_versions') as version from lane n) a
        where l.ctid = a.at and (select e.held from every e)
    ), booked as (
        -- Nobody has waited too long: what would be owed to such is forgotten.
        update pgdispatch.lane_book b
        set version = nextval('pgdispatch.lane_versions'), seen = sees, due_from = start_time,
            aged_turn = case when last_token >= turn + 10 then last_token else turn end,
            aged_from = case when last_token >= turn + 10 then aged_before else b.aged_from end
        where b.ctid = book_at and (select e.held from every e)
    )
    select array_agg(t.id) into given from taken t;
    return given;
end;
$$;
