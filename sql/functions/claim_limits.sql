-- For claim_pick: re-reads the limits and the rates of the entries' workspaces. keyed is whether an entry has a limit key,
-- and rated whether a workspace has a rate.
create or replace function pgdispatch.claim_limits(p pgdispatch.claim_proposal, at_time timestamptz, out entries pgdispatch.claim_standing[],
    out workspaces uuid[], out keyed boolean, out rated boolean)
language plpgsql volatile
as $$
begin
    select array_agg(row(0, n.slots, pgdispatch.burst_limit(n.slots, coalesce(w.max_burst_workflows, t.max_burst_workflows)),
               coalesce(w.paused, false), w.wake_number, w.max_starts_per_second,
               -- Refilled at the rate that applied until now, to at most one second's worth of it.
               case when w.max_starts_per_second is not null then least(greatest(w.max_starts_per_second, 1), (
                   select least(greatest(r.per_second, 1), r.tokens + r.per_second * greatest(extract(epoch from at_time - r.at), 0))
                   from pgdispatch.rates r where r.workspace_id = w.id)) end,
               null, null, null, null)::pgdispatch.claim_standing),
           array_agg(a.workspace_id), count(a.limit_key) > 0, count(w.max_starts_per_second) > 0
    into entries, workspaces, keyed, rated
    from unnest(p.entries) a
    left join (pgdispatch.workspaces w join pgdispatch.workspace_tiers t on t.plan = w.plan) on w.id = a.workspace_id
    -- A deleted workspace keeps one slot, through which its items are failed one by one.
    cross join lateral (select coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows, 1) as slots) n;
end;
$$;
