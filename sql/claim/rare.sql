-- What few claims need: limits and rates of keys, and rows around those that cannot be taken.

{{- /* For claim_key_limits: an entry's key, over all workspaces or, with an argument, in the entry's workspace. */ -}}
{{ define "key_limit" -}}
select row(case when l.paused then 0 when l.max_concurrent is not null then l.max_concurrent - (
                       select count(*) from (
                           select from pgdispatch.workflow_execution_queue q
                           where q.limit_key = e.limit_key {{ if . }}and q.workspace_id = e.workspace_id {{ end }}and q.stage in ('HOLDS', 'DOUBT')
                           limit l.max_concurrent) n
                   )::integer end, r.rates[1], r.rates[2])::pgdispatch.claim_key as key, l.per is not null as rated
            from pgdispatch.limits l
            cross join lateral (
                select case when l.per is not null then pgdispatch.starts_left(l.id, l.max_starts, l.per, at_time) end as rates offset 0
            ) r
            where l.key = e.limit_key and l.workspace_id {{ if . }}= e.workspace_id{{ else }}is null{{ end }} offset 0
{{ end }}
{{- /* For claim_rows_around: the due rows among which it looks for an entry's grant. The argument picks the limit key. */ -}}
{{ define "near" -}}
select q.id, q.run_at, q.workflow_definition_id
                    from pgdispatch.workflow_execution_queue q
                    where q.workspace_id = e.workspace_id and q.priority = e.priority and q.stage = 'WAITS'
                      and {{ . }}
                      and q.run_at >= e.run_at and (q.run_at, q.id) >= (e.run_at, e.id) and q.run_at <= at_time and q.id <> all (parked)
                    order by q.limit_key, q.run_at, q.id limit grants[e.ordinality] + 100
{{ end }}

-- function: claim_key_limits
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
            {{ template "key_limit" "own" }}
        ) o on true
        left join lateral (
            {{ template "key_limit" }}
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

-- function: starts_left
-- How many more items of a limit may start at at_time by its rates, and in how many seconds another may once those are
-- used up. In plpgsql, and called for limits with rates only: inlined, all claims would pay for its plan.
create or replace function pgdispatch.starts_left(limit_id bigint, max_starts integer[], per interval[], at_time timestamptz)
returns double precision[]
language plpgsql stable
as $$
begin
    return (
        select array[min(w.most - w.started), coalesce(max(w.again) filter (where w.started >= w.most), min(w.again))]
        from (
            select p.most, coalesce(sum(s.items), 0) as started, extract(epoch from coalesce(min(s.until) + p.per - at_time, p.per)) as again
            from unnest(starts_left.max_starts, starts_left.per) as p (most, per)
            left join pgdispatch.limit_starts s on s.limit_id = starts_left.limit_id and s.per = p.per and s.until > at_time - p.per
            group by p.most, p.per
        ) w
    );
end;
$$;

-- function: claim_debits
-- For claim: takes the items that it claimed out of the buckets of their workspaces' rates, and counts them for the rates
-- of their limit keys. Also writes a bucket whose rate changed, because the new rate applies from now on, and forgets
-- starts that no period has.
create or replace function pgdispatch.claim_debits(asked pgdispatch.claim_entry[], entries pgdispatch.claim_standing[], last_token bigint,
    at_time timestamptz) returns void
language plpgsql volatile
as $$
declare
    keys text[] := array(select e.limit_key from unnest(asked) e where e.limit_key is not null);
begin
    insert into pgdispatch.rates as r (workspace_id, tokens, at, per_second)
    select distinct a.workspace_id, s.allows - n.items, at_time, s.rate
    from unnest(asked) with ordinality a
    join unnest(entries) with ordinality s using (ordinality)
    cross join lateral (
        select count(*) as items from pgdispatch.workflow_execution_queue q
        where q.workspace_id = a.workspace_id and q.stage in ('HOLDS', 'DOUBT') and q.lease_token > last_token and not q.outcome_unknown
    ) n
    left join pgdispatch.rates b on b.workspace_id = a.workspace_id
    where s.rate is not null and (n.items > 0 or b.per_second <> s.rate)
    on conflict (workspace_id) do update set tokens = excluded.tokens, at = excluded.at, per_second = excluded.per_second;

    delete from pgdispatch.limit_starts s
    using pgdispatch.limits l
    where l.key = any (keys) and l.per is not null and s.limit_id = l.id and s.until <= at_time - s.per;
    insert into pgdispatch.limit_starts as s (limit_id, per, until, items)
    select l.id, p.per, date_bin(p.per / 20, at_time, timestamptz '2000-01-01 00:00Z') + p.per / 20, n.items
    from pgdispatch.limits l
    cross join lateral unnest(l.per) as p (per)
    cross join lateral (
        select count(*)::integer as items from pgdispatch.workflow_execution_queue q
        where q.limit_key = l.key and (l.workspace_id is null or q.workspace_id = l.workspace_id)
          and q.stage in ('HOLDS', 'DOUBT') and q.lease_token > last_token and not q.outcome_unknown
    ) n
    where l.key = any (keys) and l.per is not null and n.items > 0
    on conflict (limit_id, per, until) do update set items = s.items + excluded.items;
end;
$$;

-- function: claim_rows_around
-- For claim_rows: the rows for each entry's grant, without rows that others have locked and lanes that take no more. It
-- looks at up to 100 rows beyond a grant but no further: the cost of a claim must not grow with a lane's backlog.
create or replace function pgdispatch.claim_rows_around(own_namespace text, p pgdispatch.claim_proposal, grants integer[], parked bigint[],
    at_time timestamptz) returns tid[]
language plpgsql volatile
as $$
begin
    return (
        select array_agg(h.at order by h.place, h.run_at, h.id)
        from (
            select h.*, row_number() over (partition by h.lane order by h.place, h.run_at, h.id) as nth
            from unnest(p.entries) with ordinality e
            cross join lateral (
                select q.ctid as at, e.ordinality as place, near.run_at, near.id, l.lane
                from (
                    ({{ template "near" "e.limit_key is null and q.limit_key is null" }})
                    union all
                    ({{ template "near" "q.limit_key = e.limit_key" }})
                ) near
                left join pgdispatch.workflow_definitions d on d.id = near.workflow_definition_id
                join pgdispatch.workflow_execution_queue q on q.id = near.id
                cross join pgdispatch.lane(coalesce(d.namespace, own_namespace), d.kind) as l (lane)
                where q.stage = 'WAITS' and coalesce((p.namespaces ->> l.lane)::integer, 1) > 0
                order by near.run_at, near.id limit grants[e.ordinality] for update of q skip locked
            ) h
        ) h
        where h.nth <= coalesce((p.namespaces ->> h.lane)::integer, h.nth)
    );
end;
$$;
