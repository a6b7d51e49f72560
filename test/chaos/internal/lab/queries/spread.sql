-- $1 workspaces, $2 workflow type, $3 task queue. Each workspace gets a definition with its own ID.
with workspace as (
    insert into pgdispatch.workspaces (id, name)
    select w, 'spread' from unnest($1::uuid[]) as w
    returning id
), definition as (
    insert into pgdispatch.workflow_definitions (id, workspace_id, name, workflow_type, task_queue)
    select id, id, 'spread', $2, $3 from workspace
    returning id
), version as (
    insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph)
    select id, 1, '{"nodes": [{"id": "a"}], "edges": []}' from definition
    returning id
)
select count(*) from version
