-- The differences between two versions of a row: {"column": [before, after]}.
create or replace function pgdispatch.row_change(before jsonb, after jsonb) returns jsonb
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(jsonb_object_agg(a.key, jsonb_build_array(b.value, a.value)), '{}')
    from jsonb_each(after) a
    join jsonb_each(before) b on b.key = a.key
    where a.value is distinct from b.value;
$$;
