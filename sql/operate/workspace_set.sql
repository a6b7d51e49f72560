-- writes a workspace and the audit log
-- $1 workspace, $2 who, $3 the command; $4 plan and $5 paused (null: unchanged); $6 whether to set the limit and $7 its
-- value (null: the plan's); $8 and $9 likewise the starts per second (null: no limit), $10 and $11 the burst limit (null:
-- the plan's). Returns {"column": [before, after]}.
with was as materialized (
    select w.* from pgdispatch.workspaces w where w.id = $1::text::uuid for update
), changed as (
    update pgdispatch.workspaces w
    set plan = coalesce($4::text, w.plan),
        paused = coalesce($5::boolean, w.paused),
        max_concurrent_workflows = case when $6::boolean then $7::integer else w.max_concurrent_workflows end,
        max_starts_per_second = case when $8::boolean then $9::double precision else w.max_starts_per_second end,
        max_burst_workflows = case when $10::boolean then $11::integer else w.max_burst_workflows end
    from was
    where w.id = was.id
    returning w.id, pgdispatch.row_change(to_jsonb(was), to_jsonb(w)) as details
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $2::text, $3::text, 'workspace ' || c.id, c.details from changed c where c.details <> '{}'
)
select c.details::text from changed c
