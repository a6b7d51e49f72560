-- $1 name, $2 plan, $3 its own limit or null, $4 its burst limit or null. The key "own" has a limit in each workspace.
with made as (
    insert into pgdispatch.workspaces (name, plan, max_concurrent_workflows, max_burst_workflows)
    values ($1, $2, $3, $4)
    returning id
), limited as (
    insert into pgdispatch.limits (workspace_id, key, max_concurrent) select m.id, 'own', 2 from made m
)
select m.id::text from made m
