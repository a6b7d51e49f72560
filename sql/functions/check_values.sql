-- Raises an error that names the first invalid value among those that a client set.
create or replace function pgdispatch.check_values(params jsonb, priority integer, run_at timestamptz, idempotency_key text,
    traceparent text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if jsonb_typeof(params) <> 'object' then
        raise exception 'params must be a JSON object, not %', jsonb_typeof(params)
            using errcode = 'PGD04', hint = 'Wrap the value: {"value": ...}.';
    elsif octet_length(params::text) > 1966080 then
        raise exception 'params has % bytes as text, which exceeds the limit of 1966080', octet_length(params::text)
            using errcode = 'PGD05', hint = 'Temporal accepts 2 MiB of input. Store the value elsewhere and pass its key.';
    elsif priority not between -100 and 100 then
        raise exception 'priority % is out of range: it must be between -100 and 100', priority
            using errcode = 'PGD06', hint = 'Higher priorities run first; the default is 0.';
    elsif run_at not between timestamptz '2000-01-01 00:00Z' and timestamptz '2200-01-01 00:00Z' then
        raise exception 'run_at % is out of range: it must be between the years 2000 and 2200', run_at
            using errcode = 'PGD08', hint = 'Omit run_at to run immediately.';
    elsif length(idempotency_key) not between 1 and 200 then
        raise exception 'idempotency_key has % characters: it must have 1 to 200', length(idempotency_key)
            using errcode = 'PGD09', hint = 'Omit it, or use a hash of the key.';
    elsif traceparent !~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' then
        raise exception 'traceparent is not a valid W3C trace context'
            using errcode = 'PGD10', hint = 'Use the format 00-<32 hex digits>-<16 hex digits>-01 in lower case, or omit it.';
    end if;
end;
$$;
