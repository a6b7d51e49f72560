-- reads
-- $1 item IDs, $2 execution IDs. Permanently failed items, handled or not, newest first.
select f.id, f.execution_id::text, case when f.open then 'OPEN' else f.mark end as state,
       f.workspace_id::text, coalesce(w.name, '') as workspace, f.workflow_definition_id::text, coalesce(d.name, '') as workflow_definition,
       f.priority, f.params, coalesce(q.traceparent, '') as traceparent,
       f.attempt_count, f.failure_count, f.last_error, coalesce(f.execution_status, '') as execution_status, coalesce(f.run_id, '') as run_id,
       f.created_at, f.dispatched_at, f.finished_at, clock_timestamp() - f.finished_at as failed_ago, f.replay_of,
       f.marked_at, coalesce(f.marked_by, '') as marked_by,
       f.replay_id, coalesce(f.replay_execution_id::text, '') as replay_execution_id, coalesce(f.replay_status, '') as replay_status
from pgdispatch.failed_items f
join pgdispatch.workflow_execution_queue q on q.id = f.id
left join pgdispatch.workspaces w on w.id = f.workspace_id
left join pgdispatch.workflow_definitions d on d.id = f.workflow_definition_id
where f.id = any ($1::bigint[]) or f.execution_id = any ($2::text[]::uuid[])
order by f.finished_at desc, f.id desc
