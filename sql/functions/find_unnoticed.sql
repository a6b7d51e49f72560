-- Rows that no claim would notice: their enqueue_xid is of another cluster (logical replication, a restore) or their
-- triggers did not fire when they moved. Asks the items themselves, leaves a hint for each that is due and not known to its
-- lane, and returns how many it left.
create or replace function pgdispatch.find_unnoticed() returns integer
language sql volatile
as $$
    with hinted as (
        insert into pgdispatch.lane_hints (workspace_id, priority, run_at)
        select w.workspace_id, w.priority, w.run_at
        from pgdispatch.waiting_levels() w
        cross join (select b.seen, b.levels, b.due_from from pgdispatch.lane_book b order by b.version desc limit 1) b
        left join lateral (
            select l.* from pgdispatch.lanes l where l.workspace_id = w.workspace_id order by l.version desc limit 1
        ) l on true
        where w.run_at <= clock_timestamp()
          and (l.workspace_id is null
               or w.run_at < l.waiting_from
               or w.priority <> all (b.levels)
               -- Nothing makes a claim look, or not at this level: and it is not that the lane is full or has used up its rate, or that
               -- what is next in it waits for its namespace (see lane_head).
               or (l.active < l.slots and not l.paused and l.tokens >= 1
                   and (l.ready_priority is null or l.ready_priority < w.priority)
                   and (l.next_due_at is null or l.next_due_at < b.due_from or l.next_due_at > clock_timestamp() + interval '3 seconds')))
          -- What the next claim notices by itself is not unnoticed.
          and (pg_visible_in_snapshot(w.enqueue_xid, b.seen) or w.enqueue_xid > pg_snapshot_xmax(pg_current_snapshot()))
          and not exists (
              select from pgdispatch.lane_hints k
              where k.workspace_id = w.workspace_id and k.xid >= pg_snapshot_xmin(b.seen) and not pg_visible_in_snapshot(k.xid, b.seen))
        returning workspace_id
    )
    select count(*)::integer from hinted;
$$;
