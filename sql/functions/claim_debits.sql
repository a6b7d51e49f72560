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
