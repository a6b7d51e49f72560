-- For claim, under its lock: caps the items of each entry of a proposal that has a limit key, by the key's limits in
-- its workspace (own) and over all workspaces (shared). For each entry, these have: how many more items of the key may
-- hold a slot, how many more may start now, and in how many seconds another may once those are used up. Null means no
-- limit; rated, whether there is such a rate at all. Entries of the same key share what there is, in their order.
create or replace function pgdispatch.claim_keys(workspaces uuid[], keys text[], at_time timestamptz, inout items integer[],
    out own double precision[], out shared double precision[], out rated boolean)
language plpgsql volatile
as $$
declare
    first integer; -- entry of the key
    line integer; -- first entry of the key and workspace
    of_key integer[] := array_fill(0, array[cardinality(keys)]); -- items so far, at its first entry
    of_line integer[] := of_key;
begin
    select array_agg(array[o.room, o.rates[1], o.rates[2]]), array_agg(array[a.room, a.rates[1], a.rates[2]]),
           bool_or(num_nonnulls(o.rates, a.rates) > 0)
    into own, shared, rated
    from unnest(workspaces, keys) as e (workspace_id, key)
    left join lateral (
        {{ template "parts/key_limit.sql" "own" }}
    ) o on true
    left join lateral (
        {{ template "parts/key_limit.sql" }}
    ) a on true;
    for n in 1 .. cardinality(keys) loop
        continue when keys[n] is null;
        first := array_position(keys, keys[n]);
        line := first;
        while workspaces[line] <> workspaces[n] loop
            line := array_position(keys, keys[n], line + 1);
        end loop;
        items[n] := greatest(0, least(items[n], least(own[n][1], own[n][2]) - of_line[line], least(shared[n][1], shared[n][2]) - of_key[first]));
        of_line[line] := of_line[line] + items[n];
        of_key[first] := of_key[first] + items[n];
    end loop;
end;
$$;
