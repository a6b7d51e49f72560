-- reads
-- $1 workspace. Its workflow definitions, each with its newest version (null: it has none, and cannot be started).
select d.id::text, d.name, d.workflow_type, coalesce(d.namespace, '') as namespace, d.task_queue, d.max_attempts, d.execution_timeout, max(v.version) as version, d.created_at
from pgdispatch.workflow_definitions d
left join pgdispatch.workflow_definition_versions v on v.workflow_definition_id = d.id
where d.workspace_id = $1::text::uuid
group by d.id
order by d.name
