-- For claim, under its lock: re-reads the limits, counts who holds slots, and returns how many items of each entry of a
-- proposal may be claimed. The caller's memory chose the entries and may be wrong in any way; the receipts that it
-- sends with them only save counting.
--
-- An entry's receipt says: none of the workspace's holders has a token below floors, and at most held of them have one
-- up to held_to. Each item that comes to hold a slot draws the next token, so at most held + (last token - held_to)
-- items hold one now. If that plus items is not below the limit, the holders are counted from floors on. A receipt is
-- true only while no commit is lost, so one of another epoch is ignored. leased and leased_to are the same for the leased items
-- of all workspaces: at most leased of them have a token up to leased_to.
--
-- The entries of one workspace share its grants, in their order. An entry in bursts may go beyond the workspace's limit,
-- up to its burst limit; its holders are counted, so that the memory learns when it is within the limit again. room is
-- what W leaves in total. If alone, the owner must hold nothing besides what this claim gives. An owner that holds an
-- item that was lost twice gets nothing.
--
-- For each entry, facts has the limit, 1 if the workspace is paused, its wake number and the burst limit; rates and
-- allows its rate and what is left of it; counts its holders and their lowest token. Null means no workspace, no rate,
-- not counted. Lists of numbers, because a further aggregate costs as much as several entries.
create or replace function pgdispatch.claim_grants(owner text, alone boolean, own_epoch uuid, leased integer, leased_to bigint,
    workspaces uuid[], items integer[], floors bigint[], held integer[], held_to bigint[], at_time timestamptz, bursts boolean[],
    out epoch uuid, out paused boolean, out room integer, out last_token bigint, out tokens bigint[], out expired boolean,
    out grants integer[], out facts bigint[], out rates double precision[], out allows double precision[], out counts bigint[])
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    first integer; -- entry of the workspace
    most bigint;
    holders bigint; -- or more than hold
    lost integer; -- how often, of what the owner holds
    unsure integer[]; -- entries whose holders must be counted
    none integer[] := array_fill(0, array[coalesce(cardinality(workspaces), 0)]);
    used integer[];
begin
    last_token := coalesce(pg_sequence_last_value('pgdispatch.lease_tokens'), 0);
    select s.paused, s.max_claims, e.id, f.facts, f.rates into paused, room, epoch, facts, rates
    from pgdispatch.settings s left join pgdispatch.epoch e on true cross join (
        -- A deleted workspace keeps one slot, through which its items are failed one by one.
        select array_agg(w.max_starts_per_second) as rates, array_agg(array[n.slots, w.paused::integer, w.wake_number,
                   pgdispatch.burst_limit(n.slots, coalesce(w.max_burst_workflows, t.max_burst_workflows))]) as facts
        from unnest(workspaces) as p (workspace_id)
        left join (pgdispatch.workspaces w join pgdispatch.workspace_tiers t on t.plan = w.plan) on w.id = p.workspace_id
        cross join lateral (select coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows, 1) as slots) n
    ) f;
    if (epoch = own_epoch) is not true then
        leased := 0;
        leased_to := (select m.leased_from - 1 from pgdispatch.mark_trim m);
        held_to := null;
    end if;
    select array_agg(q.lease_token), coalesce(min(q.lease_expires_at) <= at_time, false),
           max(q.lost_lease_count) filter (where q.claimed_by = owner and q.lease_expires_at > at_time)
    into tokens, expired, lost
    from pgdispatch.workflow_execution_queue q
    where q.stage in ('HOLDS', 'DOUBT') and q.status = 'CLAIMED' and q.lease_token > leased_to;
    room := case when paused or lost >= 2 or alone and lost is not null then 0
                 else greatest(room - leased - coalesce(cardinality(tokens), 0), 0) end;
    if array_remove(rates, null) <> '{}' then
        allows := array(
            -- Refilled at the rate that applied until now, to at most one second's worth of it.
            select case when p.rate is not null then least(greatest(p.rate, 1), (
                select least(greatest(r.per_second, 1), r.tokens + r.per_second * greatest(extract(epoch from at_time - r.at), 0))
                from pgdispatch.rates r where r.workspace_id = p.workspace_id)) end
            from unnest(workspaces, rates) with ordinality as p (workspace_id, rate, n) order by p.n);
    end if;
    loop
        grants := none; used := none;
        for n in 1 .. cardinality(none) loop
            most := facts[n][case when bursts[n] then 4 else 1 end];
            holders := coalesce(counts[n][1], case when held_to[n] <= last_token then held[n] + (last_token - held_to[n]) end);
            if counts is null and (bursts[n] or (holders + items[n] < most) is not true) then
                unsure := unsure || n;
            end if;
            continue when facts[n][2] = 1;
            first := array_position(workspaces, workspaces[n]);
            grants[n] := greatest(least(items[n], most - holders - used[first], floor(allows[first]) - used[first]), 0);
            used[first] := used[first] + grants[n];
        end loop;
        exit when unsure is null or counts is not null;
        select array_agg(case when p.n = any (unsure) then (
            select array[count(*), min(q.lease_token)] from pgdispatch.workflow_execution_queue q
            where q.workspace_id = p.workspace_id and q.stage in ('HOLDS', 'DOUBT')
              and q.lease_token >= case when held_to[p.n] <= last_token then floors[p.n] else 0 end
        ) else array[null, null]::bigint[] end order by p.n) into counts
        from unnest(workspaces) with ordinality as p (workspace_id, n);
    end loop;
end;
$$;
