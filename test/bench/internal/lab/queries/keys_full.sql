-- $1 workspace, $2 definition, $3 keys, $4 params. Two items for each key, of which one may run.
with limits as (
    insert into pgdispatch.limits (key, max_concurrent) select 'full-' || n, 1 from generate_series(1, $3::integer) n
)
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params, limit_key)
select $1::uuid, $2::uuid, $4::jsonb, 'full-' || n from generate_series(1, $3::integer) n cross join generate_series(1, 2)
