-- $1 number of workspaces, $2 limit of each, $3 name. Each gets one definition with one version. Returns both IDs.
with w as (
    insert into pgdispatch.workspaces (name, max_concurrent_workflows)
    select $3::text || ' ' || n, $2::integer from generate_series(1, $1::integer) n
    returning id
), d as (
    insert into pgdispatch.workflow_definitions (workspace_id, name, workflow_type, task_queue)
    select w.id, 'order', 'Order', 'orders' from w
    returning id, workspace_id
), v as (
    insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph)
    select d.id, 1, '{"nodes": [{"id": "charge"}, {"id": "ship"}], "edges": [{"from": "charge", "to": "ship"}]}' from d
)
select d.workspace_id::text, d.id::text from d
