-- reads
-- $1 item IDs, $2 execution IDs, $3 whether to include params and results, which may be large. Newest first.
select q.id, q.execution_id::text, q.status,
       q.workspace_id::text, coalesce(w.name, '') as workspace, q.workflow_definition_id::text,
       coalesce(d.name, '') as workflow_definition,
       q.priority, q.run_at, greatest(q.run_at - clock_timestamp(), '0') as due_in,
       case when $3::boolean then q.params end as params, coalesce(q.idempotency_key, '') as idempotency_key,
       coalesce(q.traceparent, '') as traceparent, coalesce(q.limit_key, '') as limit_key, coalesce(k.key, '') as enqueue_key,
       q.attempt_count, q.failure_count, d.max_attempts, q.lost_lease_count, q.outcome_unknown,
       coalesce('parked, retried at ' || p.try_at::timestamptz(0) || ': ' || p.error, q.last_error, '') as last_error,
       q.created_at, clock_timestamp() - q.created_at as age,
       coalesce(q.claimed_by, '') as claimed_by, q.claimed_at, q.lease_expires_at,
       coalesce(q.lease_expires_at < clock_timestamp(), false) as lease_is_over,
       q.dispatched_at, q.finished_at, q.replay_of,
       coalesce(e.status, '') as execution_status, coalesce(e.run_id, '') as run_id, coalesce(e.namespace, '') as namespace,
       coalesce(e.watcher, '') as watcher,
       coalesce(e.workflow_definition_version_id::text, '') as version_id, v.version, e.created_at as prepared_at, e.started_at,
       e.finished_at as execution_finished_at, coalesce(e.error, '') as execution_error,
       case when $3::boolean then e.result end as result, coalesce(e.result_note, '') as result_note,
       coalesce(s.how, '') as stop, coalesce(s.state, '') as stop_state, s.requested_at as stop_requested_at,
       coalesce(s.requested_by, '') as stop_requested_by, coalesce(s.reason, '') as stop_reason, coalesce(s.error, '') as stop_error,
       coalesce(m.mark, '') as mark, m.marked_at, coalesce(m.marked_by, '') as marked_by, m.replay_id
from pgdispatch.workflow_execution_queue q
left join pgdispatch.workspaces w on w.id = q.workspace_id
left join pgdispatch.workflow_definitions d on d.id = q.workflow_definition_id
left join pgdispatch.workflow_executions e on e.id = q.execution_id
left join pgdispatch.workflow_definition_versions v on v.id = e.workflow_definition_version_id
left join pgdispatch.stop_requests s on s.execution_id = q.execution_id
left join pgdispatch.dead_letter_marks m on m.item_id = q.id
left join pgdispatch.enqueue_keys k on k.item_id = q.id
left join pgdispatch.parked_items p on p.item_id = q.id and p.attempts = q.attempt_count and q.status in ('PENDING', 'CLAIMED')
where q.id = any ($1::bigint[]) or q.execution_id = any ($2::text[]::uuid[])
order by q.id desc
