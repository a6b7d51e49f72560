-- $1 name, $2 workflow type, $3 task queue. Limits never hold its items back.
with made as (
    insert into pgdispatch.workspaces (name, plan, max_concurrent_workflows) values ($1, 'ENTERPRISE', 1000)
    returning id
), definition as (
    insert into pgdispatch.workflow_definitions (workspace_id, name, workflow_type, task_queue)
    select m.id, $2, $2, $3 from made m
    returning id, workspace_id
), version as (
    insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph)
    select d.id, 1, '{"nodes": [{"id": "a"}], "edges": []}' from definition d
)
select d.workspace_id::text, d.id::text from definition d
