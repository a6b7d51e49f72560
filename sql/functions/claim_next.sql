-- For claim_heads: the first item of each entry that is not among the heads, due or not.
create or replace function pgdispatch.claim_next(workspaces uuid[], priorities integer[], due timestamptz[], ids bigint[], keys text[],
    heads tid[], parked bigint[], out next_place integer[], out next_due timestamptz[], out next_id bigint[])
language plpgsql volatile
as $$
begin
    select array_agg(h.place), array_agg(h.run_at), array_agg(h.id) into next_place, next_due, next_id
    from unnest(workspaces, priorities, due, ids, keys) with ordinality as p (workspace_id, priority, due, id, key, place)
    cross join lateral (
        ({{ template "parts/next.sql" "p.key is null and q.limit_key is null" }})
        union all
        ({{ template "parts/next.sql" "q.limit_key = p.key" }})
    ) h;
end;
$$;
