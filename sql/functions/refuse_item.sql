-- Before an insert whose status is not a new item's, or with a key that is too long for an index: the trigger's condition
-- has found that. The statement's own trigger finds the rest, but the constraint and the indexes come before it.
create or replace function pgdispatch.refuse_item() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if length(new.idempotency_key) not between 1 and 200 then
        raise exception 'idempotency_key has % characters: it must have 1 to 200', length(new.idempotency_key)
            using errcode = 'PGD09', hint = 'Omit it, or use a hash of the key.';
    elsif length(new.limit_key) not between 1 and 200 then
        raise exception 'limit_key has % characters: it must have 1 to 200', length(new.limit_key)
            using errcode = 'PGD12', hint = 'Omit it, or use a hash of the key.';
    end if;
    raise exception 'an insert must not set status, attempts, errors, claims, leases or times of an item: pgdispatch sets them'
        using errcode = 'PGD07',
              hint = 'Set only workspace_id, workflow_definition_id, params, priority, run_at, idempotency_key, traceparent, '
                  'start_options, limit_key.';
end;
$$;
