-- For claim: counts the items that it took for the rates of their limit keys, and forgets starts that no period has.
create or replace function pgdispatch.claim_key_debit(keys text[], last_token bigint, at_time timestamptz) returns void
language plpgsql volatile -- which keeps its plans
as $$
begin
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
