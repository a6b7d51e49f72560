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
