-- For claim: takes what was claimed out of the workspaces' buckets. Also writes a bucket whose rate changed: the new
-- rate applies from now on.
create or replace function pgdispatch.claim_debit(workspaces uuid[], rates double precision[], allows double precision[], last_token bigint,
    at_time timestamptz) returns void
language sql volatile
as $$
    insert into pgdispatch.rates as r (workspace_id, tokens, at, per_second)
    select distinct p.workspace_id, p.allows - n.items, at_time, p.rate
    from unnest(workspaces, rates, allows) as p (workspace_id, rate, allows)
    cross join lateral (
        select count(*) as items from pgdispatch.workflow_execution_queue q
        where q.workspace_id = p.workspace_id and q.stage in ('HOLDS', 'DOUBT') and q.lease_token > last_token and not q.outcome_unknown
    ) n
    left join pgdispatch.rates b on b.workspace_id = p.workspace_id
    where p.rate is not null and (n.items > 0 or b.per_second <> p.rate)
    on conflict (workspace_id) do update set tokens = excluded.tokens, at = excluded.at, per_second = excluded.per_second;
$$;
