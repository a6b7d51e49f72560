-- $1 workspace, $2 name, $3 workflow type, $4 task queue, $5 execution timeout or null, $6 kind, $7 policy, $8 start options or null.
with definition as (
    insert into pgdispatch.workflow_definitions (workspace_id, name, workflow_type, task_queue, execution_timeout, kind, workflow_id_policy, start_options)
    values ($1::uuid, $2, $3, $4, $5::interval, $6, $7, $8::jsonb)
    returning id
), version as (
    insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph)
    select id, 1, '{"nodes": [{"id": "a"}], "edges": []}' from definition
)
select id::text from definition
