-- writes a new item and the audit log
-- $1 workspace, $2 definition, $3 params, $4 priority, $5 run_at or, if that is null, $6 from now (null: at once), $7
-- idempotency key, $8 who, $9 limit key. Inserts one PENDING item, or finds the one that already has this key.
with made as (
    insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params, priority, run_at, idempotency_key, limit_key)
    values ($1::text::uuid, $2::text::uuid, $3::text::jsonb, $4::integer, coalesce($5::timestamptz, now() + $6::interval, now()), $7::text, $9::text)
    on conflict (workspace_id, idempotency_key) where idempotency_key is not null do nothing
    returning id, execution_id, workspace_id
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $8::text, 'enqueue', 'items', jsonb_build_object('items', jsonb_build_array(m.id), 'workspace', m.workspace_id) from made m
)
select m.id, m.execution_id::text, true as inserted from made m
union all
select q.id, q.execution_id::text, false
from pgdispatch.workflow_execution_queue q
where q.workspace_id = $1::text::uuid and q.idempotency_key = $7::text and not exists (select from made)
