{{- /* For claim: writes the lanes that were picked in this turn and those that were touched, and books it where book_it says so. */ -}}
with counted as (
    select o.workspace_id, count(*)::integer as items from unnest(given_to) as o (workspace_id) group by o.workspace_id
), work as (
    select p.*, true as was_picked from unnest(picked) p
    union all
    select t.*, false from unnest(touched) t
    where t.workspace_id <> all (array(select p.workspace_id from unnest(picked) p))
), after as (
    select k.*, k.due_priority is not null and k.tokens_left < 1 as exhausted, nextval('pgdispatch.lane_versions') as version
    from (
        select n.*, coalesce(c.items, 0) as items, n.tokens - coalesce(c.items, 0) as tokens_left,
               h.due_priority, h.due_next_at, h.waits_from
        from work n
        left join counted c on c.workspace_id = n.workspace_id
        cross join lateral (
            select f.due_priority, f.next_due_at as due_next_at, coalesce(f.oldest_due, start_time) as waits_from
            from pgdispatch.lane_head(n.workspace_id, start_time, n.waiting_from, all_levels, own_namespace, closed) f
            where n.was_picked or around
            union all
            -- Nothing of it was taken since it was looked at.
            select n.ready_priority, n.next_due_at, n.waiting_from where not (n.was_picked or around)
        ) h
    ) k
), written as (
    update pgdispatch.lanes l
    set version = a.version,
        active = a.active + a.items,
        slots = a.slots,
        paused = a.paused,
        starts_per_second = a.starts_per_second,
        tokens = a.tokens_left,
        tokens_at = start_time,
        ready_priority = case when not a.exhausted then a.due_priority end,
        next_due_at = case when a.exhausted
            then least(a.due_next_at, start_time + (1 - a.tokens_left) / a.starts_per_second * interval '1 second' + interval '1 microsecond')
            else a.due_next_at end,
        waiting_from = a.waits_from,
        last_served = case when a.items > 0 then a.version
            else greatest(a.last_served, served_floors[array_position(all_levels, a.due_priority)]) end,
        at_capacity = a.due_priority is not null and a.active + a.items >= a.slots and not a.paused
    from after a
    where l.ctid = a.at
    returning l.workspace_id, l.active, l.slots, l.waiting_from, l.at_capacity and not a.at_capacity as full_now,
              l.active < l.slots and not l.paused and l.ready_priority is not null as ready,
              a.was_picked and a.items = 0 and l.ready_priority = a.ready_priority and cardinality(claimed) < room as gave_nothing
), booked as (
    update pgdispatch.lane_book b
    set version = nextval('pgdispatch.lane_versions'), seen = sees, levels = all_levels, served_from = served_floors,
        aged_turn = turn,
        aged_from = least(aged_floor, (select min(w.waiting_from) from written w where w.ready)),
        due_from = case when (select count(*) < 1000 from unnest(touched)) then start_time else b.due_from end
    where b.ctid = book_at and book_it
)
select coalesce(bool_or(w.ready and not w.gave_nothing), false), array_agg(w.workspace_id) filter (where w.gave_nothing),
       array_agg(json_build_object('workspace_id', w.workspace_id, 'active', w.active, 'limit', w.slots)) filter (where w.full_now)
into again, gave_nothing, full_now
from written w;
