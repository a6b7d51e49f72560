-- Deletes the hints that claims have read, and counts the ends that they tell of. A hint is deleted once, so an end counts once,
-- whoever said it: a replica, a worker or an update by hand.
create or replace function pgdispatch.drop_read_hints() returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    with dropped as (
        delete from pgdispatch.lane_hints h
        using (select b.seen from pgdispatch.lane_book b order by b.version desc limit 1) b
        where h.xid < pg_snapshot_xmax(b.seen) and pg_visible_in_snapshot(h.xid, b.seen)
        returning h.ended
    )
    insert into pgdispatch.activity as a (minute, completed, failed, cancelled)
    select date_trunc('minute', clock_timestamp()), count(*) filter (where d.ended = 'COMPLETED'),
           count(*) filter (where d.ended = 'FAILED'), count(*) filter (where d.ended = 'CANCELLED')
    from dropped d
    where d.ended is not null
    having count(*) > 0
    on conflict (minute) do update
    set completed = a.completed + excluded.completed, failed = a.failed + excluded.failed, cancelled = a.cancelled + excluded.cancelled;
$$;
