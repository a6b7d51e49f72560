-- writes a new item or a waiting one, and the audit log
-- $1 workspace, $2 definition, $3 params, $4 priority, $5 run_at or, if that is null, $6 from now, $7 key, $8 on_conflict,
-- $9 quiet, $10 at_most; null leaves a waiting item's value as it is. $11 who, $12 limit key of a new item.
with made as materialized (
    select e.id, e.execution_id, e.action
    from pgdispatch.enqueue(workspace_id => $1::text::uuid, workflow_definition_id => $2::text::uuid, params => $3::text::jsonb,
        priority => $4::integer, run_at => coalesce($5::timestamptz, now() + $6::interval), key => $7::text, on_conflict => $8::text,
        quiet => $9::interval, at_most => $10::interval, limit_key => $12::text) e
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $11::text, 'enqueue', 'items', jsonb_build_object('items', jsonb_build_array(m.id), 'workspace', $1::text, 'answer', m.action)
    from made m
    where m.action <> 'skipped'
)
select m.id, m.execution_id::text, m.action from made m where m.id > 0
