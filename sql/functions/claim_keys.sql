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
    used integer[] := array_fill(0, array[cardinality(keys)]);
    first integer;
    own_names text[];
begin
    select array_agg(o.room), array_agg(o.starts), array_agg(o.again), array_agg(a.room), array_agg(a.starts), array_agg(a.again),
           array_agg(e.workspace_id || e.key)
    into own_room, own_starts, own_again, over_room, over_starts, over_again, own_names
    from unnest(workspaces, keys) as e (workspace_id, key)
    left join lateral (
        select l.max_concurrent - (
                   select count(*) from (
                       select from pgdispatch.workflow_execution_queue q
                       where q.limit_key = e.key and q.workspace_id = e.workspace_id and q.stage in ('HOLDS', 'DOUBT') limit l.max_concurrent) n
               )::integer as room, r.starts, r.again
        from pgdispatch.limits l {{ template "parts/rates.sql" }}
        where l.key = e.key and l.workspace_id = e.workspace_id offset 0
    ) o on true
    left join lateral (
        select l.max_concurrent - (
                   select count(*) from (
                       select from pgdispatch.workflow_execution_queue q
                       where q.limit_key = e.key and q.stage in ('HOLDS', 'DOUBT') limit l.max_concurrent) n
               )::integer as room, r.starts, r.again
        from pgdispatch.limits l {{ template "parts/rates.sql" }}
        where l.key = e.key and l.workspace_id is null offset 0
    ) a on true;
    for n in 1 .. cardinality(keys) loop
        continue when keys[n] is null;
        first := array_position(own_names, own_names[n]);
        items[n] := greatest(least(items[n], least(own_room[n], own_starts[n]) - used[first]), 0);
        used[first] := used[first] + items[n];
    end loop;
    used := array_fill(0, array[cardinality(keys)]);
    for n in 1 .. cardinality(keys) loop
        continue when keys[n] is null;
        first := array_position(keys, keys[n]);
        items[n] := greatest(least(items[n], least(over_room[n], over_starts[n]) - used[first]), 0);
        used[first] := used[first] + items[n];
    end loop;
end;
$$;
