-- reads
-- $1 workspace, $2 at most (null: all). Its workflow definitions by name, each with its newest version (null: it has
-- none, and cannot be started).
select d.id::text, d.name, d.workflow_type, coalesce(d.namespace, '') as namespace, d.task_queue, d.max_attempts,
       d.execution_timeout, v.version, d.created_at
from (select d.* from pgdispatch.workflow_definitions d where d.workspace_id = $1::text::uuid order by d.name limit $2::bigint) d
left join lateral (
    select v.version from pgdispatch.workflow_definition_versions v where v.workflow_definition_id = d.id order by v.version desc limit 1
) v on true
order by d.name
