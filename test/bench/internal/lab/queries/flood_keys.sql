-- $1 workspace, $2 definition, $3 keys, $4 items of each, $5 params. One transaction; nothing may start.
with limits as (
    insert into pgdispatch.limits (key, max_concurrent) select 'flood-' || n, 0 from generate_series(1, $3::integer) n
)
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params, limit_key)
select $1::uuid, $2::uuid, $5::jsonb, 'flood-' || k from generate_series(1, $3::integer) k cross join generate_series(1, $4::integer)
