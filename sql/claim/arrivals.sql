-- reads
-- What was enqueued after snapshot $1 and is in snapshot $2, when that is much: of each transaction up to $3 lines, in
-- the order of load, which returns the rest. A transaction with $3 lines may have more.
with recursive span as materialized (
    select pg_snapshot_xmax($1::text::pg_snapshot) as first_xid, pg_snapshot_xmax($2::text::pg_snapshot) as last_xid
    union all
    select x.xid, x.xid from pg_snapshot_xip($1::text::pg_snapshot) as x (xid)
), came as ( -- one index step a transaction
    select s.last_xid, (select q.enqueue_xid from pgdispatch.workflow_execution_queue q
                        where q.stage = 'WAITS' and q.enqueue_xid between s.first_xid and s.last_xid order by q.enqueue_xid limit 1) as xid
    from span s
    union all
    select c.last_xid, (select q.enqueue_xid from pgdispatch.workflow_execution_queue q
                        where q.stage = 'WAITS' and q.enqueue_xid > c.xid and q.enqueue_xid <= c.last_xid order by q.enqueue_xid limit 1)
    from came c
    where c.xid is not null
)
select c.xid::text, l.workspace_id, l.priority, coalesce(l.limit_key, '') as limit_key, l.run_at as due, w.wake_number
from came c
cross join lateral (select l.* from pgdispatch.arrived_lines(c.xid, null, null, null) l limit $3::integer) l
left join lateral (select w.wake_number from pgdispatch.workspaces w where w.id = l.workspace_id offset 0) w on true
where pg_visible_in_snapshot(c.xid, $2::text::pg_snapshot)
