-- For claim_pick: caps the items of each entry that has a limit key by the key's limits, in its workspace (own) and over
-- all workspaces (shared). rated is whether one of them is a rate. Entries of the same key share what there is, in their
-- order.
create or replace function pgdispatch.claim_key_limits(inout asked pgdispatch.claim_entry[], inout entries pgdispatch.claim_standing[],
    at_time timestamptz, out rated boolean)
language plpgsql volatile
as $$
declare
    a record;
    place bigint; -- of the first entry of the key
    queue bigint; -- of the first entry of the key and workspace
    of_key integer[] := array_fill(0, array[cardinality(asked)]); -- items so far, at the first entry
    of_queue integer[] := of_key;
begin
    rated := false;
    for a in
        select e.ordinality as n, e.items, o.key as own, s.key as shared, coalesce(o.rated, false) or coalesce(s.rated, false) as rated,
               first_value(e.ordinality) over (partition by e.limit_key order by e.ordinality) as first_of_key,
               first_value(e.ordinality) over (partition by e.limit_key, e.workspace_id order by e.ordinality) as first_of_queue
        from unnest(asked) with ordinality e
        left join lateral (
            {{ template "parts/key_limit.sql" "own" }}
        ) o on true
        left join lateral (
            {{ template "parts/key_limit.sql" }}
        ) s on true
        where e.limit_key is not null
        order by e.ordinality
    loop
        place := a.first_of_key; queue := a.first_of_queue; rated := rated or a.rated;
        entries[a.n].own := a.own; entries[a.n].shared := a.shared;
        asked[a.n].items := greatest(0, least(a.items, least((a.own).room, (a.own).starts) - of_queue[queue],
                                              least((a.shared).room, (a.shared).starts) - of_key[place]));
        of_queue[queue] := of_queue[queue] + asked[a.n].items;
        of_key[place] := of_key[place] + asked[a.n].items;
    end loop;
end;
$$;
