-- reads
-- $1 workspace (null: all), $2 part of the name, case-insensitive (null: any), $3 only those after this ID (null: from the
-- first), $4 at most. Ordered by the workspace's name and by the definition's.
with page as materialized (
    select d.id, w.name as workspace
    from pgdispatch.workflow_definitions d
    join pgdispatch.workspaces w on w.id = d.workspace_id
    where ($1::text is null or d.workspace_id = $1::text::uuid)
      and ($2::text is null or position(lower($2::text) in lower(d.name)) > 0)
      and ($3::text is null or (w.name, w.id, d.name) > (
          select aw.name, aw.id, a.name
          from pgdispatch.workflow_definitions a join pgdispatch.workspaces aw on aw.id = a.workspace_id
          where a.id = $3::text::uuid))
    order by w.name, w.id, d.name
    limit $4::bigint
)
select d.id::text, d.workspace_id::text, p.workspace, d.name, d.workflow_type, coalesce(d.namespace, '') as namespace,
       d.task_queue, d.max_attempts, d.execution_timeout,
       (select max(v.version) from pgdispatch.workflow_definition_versions v where v.workflow_definition_id = d.id) as version,
       d.created_at
from page p
join pgdispatch.workflow_definitions d on d.id = p.id
order by p.workspace, d.workspace_id, d.name
