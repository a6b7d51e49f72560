-- Whether a claim would find something to do, by reading only: what a replica that has nothing to do asks at every poll. It may say
-- yes where a claim then finds nothing (W or a rate leaves no room), and never no where it would have found an item.
create or replace function pgdispatch.work_due() returns boolean
language sql stable
as $$
    select not s.paused and (
        pg_snapshot_xmax(b.seen) > pg_snapshot_xmax(pg_current_snapshot()) -- restored into another cluster
        -- What has come since the last claim.
        or exists (
            select
            from (
                {{ template "parts/spans.sql" }}
            ) span
            cross join lateral (
                (select from pgdispatch.workflow_execution_queue q
                 where q.status = 'PENDING' and not q.outcome_unknown and q.enqueue_xid between span.first_xid and span.last_xid limit 1)
                union all
                (select from pgdispatch.lane_hints h where h.xid between span.first_xid and span.last_xid limit 1)
            ) change)
        -- What it left, and what has fallen due.
        or exists (select from pgdispatch.ready_lanes(b.levels, b.served_from))
        or exists (
            select from pgdispatch.lanes l
            where l.active < l.slots and not l.paused and l.next_due_at >= b.due_from and l.next_due_at <= clock_timestamp())
        or exists (
            select from pgdispatch.workflow_execution_queue q
            where q.status = 'PENDING' and q.outcome_unknown and q.run_at <= clock_timestamp())
        or exists (
            select from pgdispatch.workflow_execution_queue q
            where q.status = 'CLAIMED' and q.lease_expires_at <= clock_timestamp())
    )
    from pgdispatch.settings s
    cross join (select b.* from pgdispatch.lane_book b order by b.version desc limit 1) b
$$;
