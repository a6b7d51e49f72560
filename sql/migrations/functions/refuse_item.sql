-- Names what is wrong with a row. Its trigger's condition has found that something is.
create function pgdispatch.refuse_item() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if jsonb_typeof(new.params) <> 'object' then
        raise exception 'params must be a JSON object, not %', jsonb_typeof(new.params)
            using errcode = 'PGD04', hint = 'Wrap the value: {"value": ...}.';
    elsif octet_length(new.params::text) > 1966080 then
        raise exception 'params has % bytes as text, the limit is 1966080', octet_length(new.params::text)
            using errcode = 'PGD05', hint = 'Temporal accepts 2 MiB of input. Store the value elsewhere and pass its key.';
    elsif new.priority not between -100 and 100 then
        raise exception 'priority is %, it must be between -100 and 100', new.priority
            using errcode = 'PGD06', hint = 'Higher runs first; 0 is usual.';
    elsif new.run_at not between timestamptz '2000-01-01 00:00Z' and timestamptz '2200-01-01 00:00Z' then
        raise exception 'run_at is %, it must lie between the years 2000 and 2200', new.run_at
            using errcode = 'PGD08', hint = 'Leave run_at out to run at once.';
    elsif length(new.idempotency_key) not between 1 and 200 then
        raise exception 'idempotency_key has % characters, it must have 1 to 200', length(new.idempotency_key)
            using errcode = 'PGD09', hint = 'Leave it out, or use a hash of the longer key.';
    elsif new.traceparent !~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' then
        raise exception 'traceparent is not a W3C trace context'
            using errcode = 'PGD10', hint = 'It looks like 00-<32 hex digits>-<16 hex digits>-01, in lower case; or leave it out.';
    end if;
    raise exception 'status, attempts, errors, claims, leases and times of an item are set by pgdispatch, not by the insert'
        using errcode = 'PGD07',
              hint = 'Insert workspace_id, workflow_definition_id and params; optional are priority, run_at, idempotency_key and traceparent.';
end;
$$;
