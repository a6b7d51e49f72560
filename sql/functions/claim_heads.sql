-- For claim: the rows to claim for each entry's grant, ordered by run_at; in total at most `most`, in the order of the
-- entries. Also returns the first remaining item of each entry, due or not. If careful, or if namespaces are limited,
-- it may skip rows: see claim_around.
create or replace function pgdispatch.claim_heads(workspaces uuid[], priorities integer[], grants integer[], due timestamptz[], ids bigint[],
    most integer, at_time timestamptz, careful boolean, own_namespace text, namespaces text[], allowed integer[],
    keys text[], out heads tid[], out next_place integer[], out next_due timestamptz[], out next_id bigint[])
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    parked bigint[] := {{ template "parts/parked.sql" }};
begin
    if careful or cardinality(namespaces) > 0 then
        heads := pgdispatch.claim_around(workspaces, priorities, grants, due, ids, at_time, own_namespace, namespaces,
            allowed, keys, parked);
    elsif keys is null then
        select array_agg(h.at) filter (where h.gets), array_agg(h.place) filter (where not h.gets),
               array_agg(h.run_at) filter (where not h.gets), array_agg(h.id) filter (where not h.gets)
        into heads, next_place, next_due, next_id
        from {{ template "parts/heads.sql" "q.limit_key is null" }};
    elsif array_position(keys, null) is null then
        select array_agg(h.at) filter (where h.gets), array_agg(h.place) filter (where not h.gets),
               array_agg(h.run_at) filter (where not h.gets), array_agg(h.id) filter (where not h.gets)
        into heads, next_place, next_due, next_id
        from {{ template "parts/heads.sql" "q.limit_key = p.key" }};
    else
        select array_agg(h.at order by h.place, h.run_at, h.id) filter (where h.gets), array_agg(h.place) filter (where not h.gets),
               array_agg(h.run_at) filter (where not h.gets), array_agg(h.id) filter (where not h.gets)
        into heads, next_place, next_due, next_id
        from (
            select h.* from {{ template "parts/heads.sql" "p.key is null and q.limit_key is null" }}
            union all
            select h.* from {{ template "parts/heads.sql" "q.limit_key = p.key" }}
        ) h;
    end if;
    if careful or cardinality(namespaces) > 0 or cardinality(heads) > most then
        heads := heads[1:most];
        select n.* into next_place, next_due, next_id
        from pgdispatch.claim_next(workspaces, priorities, due, ids, keys, heads, parked) n;
    end if;
end;
$$;
