-- Raises an error that names the first invalid argument of pgdispatch.enqueue among those that concern its key.
create or replace function pgdispatch.check_policy(key text, on_conflict text, quiet interval, at_most interval, run_at timestamptz) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if length(key) not between 1 and 200 then
        raise exception 'key has % characters: it must have 1 to 200', length(key)
            using errcode = 'PGD50', hint = 'Omit it, or use a hash of the key.';
    elsif key is null and num_nonnulls(on_conflict, quiet, at_most) > 0 then
        raise exception 'on_conflict, quiet and at_most need a key'
            using errcode = 'PGD50', hint = 'Pass the key that the calls have in common, such as ''order-17''.';
    elsif on_conflict not in ('skip', 'replace', 'debounce') then
        raise exception 'on_conflict is %: it must be skip, replace or debounce', on_conflict
            using errcode = 'PGD51', hint = 'Omit it for skip.';
    elsif on_conflict is distinct from 'debounce' and num_nonnulls(quiet, at_most) > 0 then
        raise exception 'quiet and at_most are for debounce, and on_conflict is %', coalesce(on_conflict, 'skip')
            using errcode = 'PGD51', hint = 'Pass on_conflict => ''debounce'', or omit quiet and at_most.';
    elsif on_conflict = 'debounce' and (quiet between interval '1 ms' and interval '1 year') is not true then
        raise exception 'quiet is %: it must be from 1 ms to 1 year', coalesce(quiet::text, 'null')
            using errcode = 'PGD52', hint = 'Pass how long no call must come before the item is due, such as ''5s''.';
    elsif (at_most between quiet and interval '1 year') is false then
        raise exception 'at_most is %: it must be at least quiet, %, and at most 1 year', at_most, quiet
            using errcode = 'PGD52', hint = 'Pass how long the first call may wait in all, such as ''1 min'', or omit it.';
    elsif on_conflict = 'debounce' and num_nonnulls(run_at) > 0 then
        raise exception 'run_at must not be given with debounce'
            using errcode = 'PGD53', hint = 'Omit run_at: debounce sets it to quiet from now.';
    end if;
end;
$$;
