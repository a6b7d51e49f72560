-- Changes of limits.

-- function: limits_changed
-- A plan, an override, a pause, a rate or W changed. The change applies from this transaction's commit and may free
-- capacity.
create or replace function pgdispatch.limits_changed() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_table_name = 'workspaces' then
        insert into pgdispatch.marks (workspaces) select array_agg(c.id) from changed c having count(*) > 0;
    elsif tg_table_name = 'limits' then
        insert into pgdispatch.marks (workspaces) select null from (select from changed limit 1) c; -- a cascade may reach none
        if tg_op = 'DELETE' then
            delete from pgdispatch.limit_starts s where s.limit_id in (select c.id from changed c);
        end if;
    else
        insert into pgdispatch.marks (workspaces) values (null); -- all workspaces: a plan may have any number of them
    end if;
    perform pgdispatch.wake();
    return null;
end;
$$;

-- function: check_rates
-- Whether the rates of a limit are valid: for each period, the number of items that may start in it. Raises an error
-- that names what is wrong.
create or replace function pgdispatch.check_rates(max_starts integer[], per interval[]) returns boolean
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if num_nonnulls(max_starts, per) = 0 then
        return true;
    elsif cardinality(max_starts) is distinct from cardinality(per) or cardinality(per) not between 1 and 4 then
        raise exception 'max_starts and per of a limit must have the same number of elements, 1 to 4'
            using errcode = 'PGD13', hint = 'For 10 a second and 100 a minute: max_starts {10,100}, per {1 second,1 minute}.';
    elsif exists (select from unnest(max_starts) s where s is null or s not between 0 and 1000000) then
        raise exception 'each element of max_starts must be between 0 and 1000000'
            using errcode = 'PGD13', hint = 'Use 0 to start nothing, and null instead of the array for no limit.';
    elsif exists (select from unnest(per) p where p is null or p not between interval '1 second' and interval '1 day'
                  or extract(month from p) <> 0)
          or (select count(distinct p) from unnest(per) p) < cardinality(per) then
        raise exception 'the elements of per must be different periods between 1 second and 1 day'
            using errcode = 'PGD13', hint = 'For example {1 second,1 minute}.';
    end if;
    return true;
end;
$$;

-- function: row_change
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
