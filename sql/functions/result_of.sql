-- A result as jsonb; null where Postgres does not take it: a \u0000, half of a surrogate pair, a number beyond all bounds. An end
-- that could not be recorded for its result would hold its slot for ever.
create or replace function pgdispatch.result_of(given text) returns jsonb
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    return given::jsonb;
exception
    when others then
        return null;
end;
$$;
