-- reads
-- $1 the snapshot of the last look, $2 how many new items to read at most: if they are that many, see arrivals for what
-- came; $3 the epoch of the last load. Returns what changed since: a row per priority level and limit key of a workspace
-- at which items arrived or wait again; without a priority, a workspace where so many items, of these limit keys, ended
-- or, without items, a limit changed; without a workspace, all limits. Every row has the new snapshot, the time, when the
-- first unanswered start is to be repeated, and whether it lost two holders. A mark may be read twice but is never
-- missed: gap is true if marks that the old snapshot does not see were trimmed, or if that snapshot is from another epoch
-- or cluster, in which other transactions had the same IDs. Then everything that waits must be loaded.
with given as (select $1::text::pg_snapshot as seen, pg_current_snapshot() as sees), span as materialized (
    {{ template "parts/spans.sql" }}
), change as (
    select q.workspace_id, q.priority, q.limit_key, null::text[] as limit_keys, min(q.run_at) as due, count(*)::integer as items
    from (
        select q.*
        from span s
        cross join lateral (
            select q.workspace_id, q.priority, q.limit_key, q.run_at from pgdispatch.workflow_execution_queue q
            where q.stage = 'WAITS' and q.enqueue_xid between s.first_xid and s.last_xid offset 0
        ) q
        limit $2::integer
    ) q
    group by q.workspace_id, q.priority, q.limit_key
    union all
    select w.id, m.priority, m.limit_keys[1], m.limit_keys, m.due, m.completed + m.failed + m.cancelled
    from span s
    cross join lateral (select m.* from pgdispatch.marks m where m.xid between s.first_xid and s.last_xid offset 0) m
    left join lateral unnest(m.workspaces) as w (id) on true
)
select pg_current_snapshot()::text as seen, clock_timestamp() as now,
       d.run_at as unanswered_at, coalesce(d.suspect, false) as suspect, s.priority_aging as aging, s.paused,
       pg_snapshot_xmin(g.seen) < t.trimmed_to or pg_snapshot_xmax(g.seen) > pg_snapshot_xmax(pg_current_snapshot())
           or not exists (select from pgdispatch.epoch e where e.id = $3::text::uuid) as gap,
       c.items is not null as changed, c.workspace_id, c.priority, coalesce(c.limit_key, '') as limit_key, c.limit_keys, c.due, c.items, w.wake_number
from given g
cross join (select t.trimmed_to from pgdispatch.mark_trim t limit 1) t
cross join (select s.priority_aging, s.paused from pgdispatch.settings s limit 1) s
left join lateral (
    select q.run_at, q.lost_lease_count >= 2 as suspect
    from pgdispatch.workflow_execution_queue q
    where q.stage = 'DOUBT' and not exists (select from pgdispatch.workspaces w where w.id = q.workspace_id and w.paused)
    order by q.run_at, q.id limit 1
) d on true
left join change c on true
left join lateral (select w.wake_number from pgdispatch.workspaces w where w.id = c.workspace_id offset 0) w on true
