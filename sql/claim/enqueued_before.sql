-- reads
-- $1 items, $2 snapshot. Returns the workspaces of those that were enqueued before it, or in another cluster.
select distinct q.workspace_id::text
from pgdispatch.workflow_execution_queue q
where q.id = any ($1::bigint[])
  and (pg_visible_in_snapshot(q.enqueue_xid, $2::text::pg_snapshot) or not pg_visible_in_snapshot(q.enqueue_xid, pg_current_snapshot()))
