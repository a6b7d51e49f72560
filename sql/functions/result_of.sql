-- A result as jsonb; null if Postgres rejects it: a \u0000, half of a surrogate pair, or a number out of range.
-- Otherwise the end could not be recorded, and the item would hold its slot forever.
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
