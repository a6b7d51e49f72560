-- Before an insert whose status is not a new item's: the trigger's condition has found that. The statement's own
-- trigger finds the rest, but the table's constraint would report this case before it.
create or replace function pgdispatch.refuse_item() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'an insert must not set status, attempts, errors, claims, leases or times of an item: pgdispatch sets them'
        using errcode = 'PGD07',
              hint = 'Set only workspace_id, workflow_definition_id, params, priority, run_at, idempotency_key, traceparent, '
                  'start_options, limit_key.';
end;
$$;
