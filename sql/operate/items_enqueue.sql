-- writes new items and the audit log
-- One item per position of the arrays: $1 workspaces, $2 definitions, $3 params, $4 priorities, $5 run_at or, if that is
-- null, $6 from now (null: at once), $7 idempotency keys, $8 traceparents and $10 limit keys (null: none). $9 who. Inserts
-- PENDING items, except those whose idempotency key an item of the workspace has already, and returns the IDs of the new
-- ones.
with made as (
    insert into pgdispatch.workflow_execution_queue
        (workspace_id, workflow_definition_id, params, priority, run_at, idempotency_key, traceparent, limit_key)
    select l.workspace::uuid, l.definition::uuid, l.params::jsonb, l.priority, coalesce(l.run_at, now() + l.run_in, now()),
           l.key, l.traceparent, l.limit_key
    from unnest($1::text[], $2::text[], $3::text[], $4::integer[], $5::timestamptz[], $6::interval[], $7::text[], $8::text[],
                $10::text[])
        with ordinality as l (workspace, definition, params, priority, run_at, run_in, key, traceparent, limit_key, line)
    order by l.line
    on conflict (workspace_id, idempotency_key) where idempotency_key is not null do nothing
    returning id, workspace_id
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $9::text, 'enqueue', 'items',
           jsonb_build_object('items', jsonb_agg(m.id order by m.id), 'workspaces', jsonb_agg(distinct m.workspace_id))
    from made m
    having count(*) > 0
)
select m.id from made m
