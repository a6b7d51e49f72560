-- reads
-- What was enqueued after snapshot $1 and is in snapshot $2, when a look found too much: of each transaction its first
-- $3 key queues. See the function.
select a.xid::text, a.workspace_id, a.priority, coalesce(a.limit_key, '') as limit_key, a.run_at as due, w.wake_number
from pgdispatch.arrivals($1::text::pg_snapshot, $2::text::pg_snapshot, $3::integer) a
left join lateral (select w.wake_number from pgdispatch.workspaces w where w.id = a.workspace_id offset 0) w on true
