-- Workflow definitions.

-- name: definitions
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
select d.id::text, d.workspace_id::text, p.workspace, d.name, d.kind, d.workflow_type, coalesce(d.namespace, '') as namespace,
       d.task_queue, d.max_attempts, d.execution_timeout,
       (select max(v.version) from pgdispatch.workflow_definition_versions v where v.workflow_definition_id = d.id) as version,
       d.input, coalesce(d.limit_key, '') as limit_key, coalesce(d.limit_key_param, '') as limit_key_param,
       d.workflow_id_policy, d.created_at
from page p
join pgdispatch.workflow_definitions d on d.id = p.id
order by p.workspace, d.workspace_id, d.name

-- name: definition_list
-- reads
-- $1 workspace, $2 at most (null: all), $3 only if it is one of these (null: any). Its workflow definitions by name, each
-- with its newest version (null: it has none, and cannot be started if its input is an envelope).
select d.id::text, d.name, d.kind, d.workflow_type, coalesce(d.namespace, '') as namespace, d.task_queue, d.max_attempts,
       d.execution_timeout, v.version, d.input, coalesce(d.limit_key, '') as limit_key,
       coalesce(d.limit_key_param, '') as limit_key_param, d.workflow_id_policy, d.created_at
from (select d.* from pgdispatch.workflow_definitions d
      where d.workspace_id = $1::text::uuid and ($3::text[] is null or d.workspace_id = any ($3::text[]::uuid[]))
      order by d.name limit $2::bigint) d
left join lateral (
    select v.version from pgdispatch.workflow_definition_versions v where v.workflow_definition_id = d.id order by v.version desc limit 1
) v on true
order by d.name

-- name: definition_create
-- writes a workflow definition with its first version, and the audit log
-- $1 workspace, $2 name, $3 workflow type, $4 task queue, $5 namespace (null: the replicas'), $6 max_attempts (null: 3), $7
-- execution_timeout (null: none), $8 graph, $9 who, $10 input (null: envelope), $11 limit_key (null: none), $12
-- limit_key_param (null: none), $13 workflow_id_policy (null: reject), $14 kind (null: workflow).
with made as (
    insert into pgdispatch.workflow_definitions
        (workspace_id, name, workflow_type, task_queue, namespace, max_attempts, execution_timeout, input, limit_key, limit_key_param,
         workflow_id_policy, kind)
    select w.id, $2::text, $3::text, $4::text, $5::text, coalesce($6::integer, 3), $7::interval, coalesce($10::text, 'envelope'),
           $11::text, $12::text, coalesce($13::text, 'reject'), coalesce($14::text, 'workflow')
    from pgdispatch.workspaces w where w.id = $1::text::uuid
    returning id, workspace_id, name, workflow_type, task_queue, namespace, max_attempts, execution_timeout, input, limit_key, limit_key_param,
        workflow_id_policy, kind
), versioned as (
    insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph)
    select m.id, 1, $8::text::jsonb from made m
    returning version
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $9::text, 'definitions create', 'definition ' || m.id,
           jsonb_strip_nulls(to_jsonb(m) - 'id') || jsonb_build_object('version', v.version)
    from made m cross join versioned v
)
select m.id::text from made m

-- name: definition_version
-- writes a version of a workflow definition and the audit log
-- $1 definition, $2 graph, $3 who. Returns the version, which is one more than the newest.
with locked as materialized (
    select d.id from pgdispatch.workflow_definitions d where d.id = $1::text::uuid for update
), made as (
    insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph)
    select l.id, coalesce(max(v.version), 0) + 1, $2::text::jsonb
    from locked l left join pgdispatch.workflow_definition_versions v on v.workflow_definition_id = l.id
    group by l.id
    returning workflow_definition_id, version, jsonb_array_length(node_ids) as nodes
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $3::text, 'definitions version', 'definition ' || m.workflow_definition_id, to_jsonb(m) - 'workflow_definition_id'
    from made m
)
select m.version from made m

-- name: definition_complete
-- reads
-- $1 workspace, $2 beginning of the name, case-insensitive, $3 how many of its first definitions are looked at, $4 at
-- most, $5 only if it is one of these workspaces (null: any).
select d.name
from (select d.name from pgdispatch.workflow_definitions d
      where d.workspace_id = $1::text::uuid and ($5::text[] is null or d.workspace_id = any ($5::text[]::uuid[]))
      order by d.name limit $3::bigint) d
where starts_with(lower(d.name), lower($2::text))
order by d.name
limit $4::bigint
