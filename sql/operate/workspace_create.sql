-- writes a workspace and the audit log
-- $1 name, $2 plan (null: FREE), $3 its own limit (null: the plan's), $4 starts per second (null: no limit), $5 whether it
-- is paused, $6 who, $7 its own burst limit (null: the plan's).
with made as (
    insert into pgdispatch.workspaces (name, plan, max_concurrent_workflows, max_starts_per_second, paused, max_burst_workflows)
    values ($1::text, coalesce($2::text, 'FREE'), $3::integer, $4::double precision, $5::boolean, $7::integer)
    returning id, name, plan, max_concurrent_workflows, max_starts_per_second, paused, max_burst_workflows
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $6::text, 'workspaces create', 'workspace ' || m.id, jsonb_strip_nulls(to_jsonb(m) - 'id') from made m
)
select m.id::text, m.plan from made m
