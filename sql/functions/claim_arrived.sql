-- PENDING -> CLAIMED, for claim: everything that arrived since the last claim, where there is room for all of it and nothing else waits
-- in a workspace with room, which the caller knows. Then no turn has to be found, nor what a lane has left: it has nothing.
-- Returns what was given and books it, or returns null and has changed nothing: so wherever anything is not as simple as that, and where
-- somebody has one of the items locked.
create or replace function pgdispatch.claim_arrived(owner text, room integer, lease interval, start_time timestamptz, seen pg_snapshot, book_at tid,
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
    items_of integer[];
    lanes_at tid[];
    items_at tid[];
    simple boolean;
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

    select array_agg(n.lane_at), array_agg(n.freed), array_agg(n.items), bool_and(n.fits)
    into lanes_at, freed, items_of, simple
    from (
        select l.at as lane_at, n.freed, n.items,
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
    ) n;
    if not simple then
        return null;
    end if;
    items_at := array(
        select q.ctid
        from pgdispatch.workflow_execution_queue q
        where q.id = any (ids) and q.status = 'PENDING' and not q.outcome_unknown
        for update skip locked
    );
    if cardinality(items_at) < items then
        return null;
    end if;

    {{ template "parts/take.sql" }}
    where q.ctid = any (items_at); -- they are locked, so that is where they stay
    update pgdispatch.lanes l
    set version = n.version,
        active = greatest(l.active - n.freed, 0) + n.items,
        waiting_from = start_time,
        last_served = case when n.items > 0 then n.version else l.last_served end
    from (
        select u.*, nextval('pgdispatch.lane_versions') as version
        from unnest(lanes_at, freed, items_of) as u (at, freed, items)
    ) n
    where l.ctid = n.at;
    -- Nobody has waited too long: what would be owed to such is forgotten.
    update pgdispatch.lane_book b
    set version = nextval('pgdispatch.lane_versions'), seen = sees, due_from = start_time,
        aged_turn = case when last_token >= turn + 10 then last_token else turn end,
        aged_from = case when last_token >= turn + 10 then aged_before else b.aged_from end
    where b.ctid = book_at;
    return array_remove(ids, null);
end;
$$;
