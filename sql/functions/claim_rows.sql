-- For claim_pick: the rows to claim for each entry's grant, ordered by run_at; in total at most `most`, in the order of the
-- entries. next are the first rows that it leaves of the entries.
create or replace function pgdispatch.claim_rows(own_namespace text, p pgdispatch.claim_proposal, entries pgdispatch.claim_standing[],
    keyed boolean, most integer, at_time timestamptz, out heads tid[], out next json)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    parked bigint[] := {{ template "parts/parked.sql" }};
    grants integer[] := array(select s.granted from unnest(entries) s);
begin
    if p.careful or p.namespaces is not null then
        heads := pgdispatch.claim_rows_around(own_namespace, p, grants, parked, at_time);
    elsif keyed then
        select array_agg(h.at order by h.place, h.run_at, h.id) filter (where h.gets),
               {{ template "parts/positions.sql" }} filter (where not h.gets)
        into heads, next
        from (
            select h.* from {{ template "parts/heads.sql" "e.limit_key is null and q.limit_key is null" }}
            union all
            select h.* from {{ template "parts/heads.sql" "q.limit_key = e.limit_key" }}
        ) h;
    else
        select array_agg(h.at) filter (where h.gets),
               {{ template "parts/positions.sql" }} filter (where not h.gets)
        into heads, next
        from {{ template "parts/heads.sql" "q.limit_key is null" }};
    end if;
    if p.careful or p.namespaces is not null or cardinality(heads) > most then
        heads := heads[1:most];
        select {{ template "parts/positions.sql" }} into next
        from unnest(p.entries) with ordinality e
        cross join lateral (
            ({{ template "parts/next.sql" "e.limit_key is null and q.limit_key is null" }})
            union all
            ({{ template "parts/next.sql" "q.limit_key = e.limit_key" }})
        ) h;
    end if;
end;
$$;
