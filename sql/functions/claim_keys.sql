-- For claim, under its lock: caps the items of each entry of a proposal that has a limit key, by the key's limits in
-- its workspace (own) and over all workspaces (over). room is how many more items of the key may hold a slot, starts
-- is how many more may start now, and again in how many seconds another may once those are used up. Null means no
-- limit. Entries of the same key share what there is, in their order.
create or replace function pgdispatch.claim_keys(workspaces uuid[], keys text[], at_time timestamptz, inout items integer[],
    out own_room integer[], out own_starts integer[], out own_again double precision[],
    out over_room integer[], out over_starts integer[], out over_again double precision[])
language plpgsql volatile
as $$
declare
    lines text[]; -- the workspace and key of each entry
    of_line integer[] := array_fill(0, array[cardinality(keys)]); -- items so far, at the first entry of each line
    of_key integer[] := of_line;
    line integer;
    key integer;
begin
    select array_agg(o.room), array_agg(o.starts), array_agg(o.again), array_agg(a.room), array_agg(a.starts), array_agg(a.again),
           array_agg(e.workspace_id || e.key)
    into own_room, own_starts, own_again, over_room, over_starts, over_again, lines
    from unnest(workspaces, keys) as e (workspace_id, key)
    left join lateral (
        {{ template "parts/key_limit.sql" "own" }}
    ) o on true
    left join lateral (
        {{ template "parts/key_limit.sql" }}
    ) a on true;
    for n in 1 .. cardinality(keys) loop
        continue when keys[n] is null;
        line := array_position(lines, lines[n]);
        key := array_position(keys, keys[n]);
        items[n] := greatest(0, least(items[n], least(own_room[n], own_starts[n]) - of_line[line],
            least(over_room[n], over_starts[n]) - of_key[key]));
        of_line[line] := of_line[line] + items[n];
        of_key[key] := of_key[key] + items[n];
    end loop;
end;
$$;
