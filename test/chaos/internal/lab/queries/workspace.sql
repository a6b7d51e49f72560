-- $1 name, $2 plan, $3 its own limit or null, $4 its burst limit or null, $5 its rate or null. The key "own" has a limit
-- in each workspace, and the key "metered" a rate.
with made as (
    insert into pgdispatch.workspaces (name, plan, max_concurrent_workflows, max_burst_workflows, max_starts_per_second)
    values ($1, $2, $3, $4, $5)
    returning id
), limited as (
    insert into pgdispatch.limits (workspace_id, key, max_concurrent) select m.id, 'own', 2 from made m
), rated as (
    insert into pgdispatch.limits (workspace_id, key, max_starts, per) select m.id, 'metered', '{3,5}', '{1 second,2 seconds}' from made m
)
select m.id::text from made m
