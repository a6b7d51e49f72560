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
-- in limits, up to its burst limit, in mosts; its holders are counted, so that the memory learns when it is within the
-- limit again. room is what W leaves in total. If alone, the owner must hold nothing besides what this claim gives. An
-- owner that holds an item that was lost twice gets nothing.
drop function if exists pgdispatch.claim_grants(text, boolean, uuid, integer, bigint, uuid[], integer[], bigint[], integer[], bigint[], timestamptz);
create or replace function pgdispatch.claim_grants(owner text, alone boolean, own_epoch uuid, leased integer, leased_to bigint,
    workspaces uuid[], items integer[], floors bigint[], held integer[], held_to bigint[], at_time timestamptz, bursts boolean[],
    out epoch uuid, out paused boolean, out room integer, out last_token bigint, out tokens bigint[],
    out grants integer[], out limits integer[], out holders integer[], out counted integer[], out lowest bigint[], out pauses boolean[],
    out rates double precision[], out allowed double precision[], out numbers bigint[], out expired boolean, out mosts integer[])
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    first integer;
    waits boolean;
    caps integer[]; -- what holds for each entry: limits or mosts
    used integer[] := array_fill(0, array[coalesce(cardinality(workspaces), 0)]);
begin
    select e.id, s.paused, t.last, n.tokens, s.max_claims - coalesce(cardinality(n.tokens), 0) - case when e.id = own_epoch then leased else 0 end,
           n.guards or alone and n.holds, n.expired, l.limits, l.holders, l.counted, l.lowest, l.pauses, l.rates, l.allowed, l.numbers,
           l.mosts, l.caps
    into epoch, paused, last_token, tokens, room, waits, expired, limits, holders, counted, lowest, pauses, rates, allowed, numbers, mosts, caps
    from (select coalesce(pg_sequence_last_value('pgdispatch.lease_tokens'), 0) as last offset 0) t
    cross join (select s.paused, s.max_claims from pgdispatch.settings s limit 1) s
    cross join (select m.leased_from from pgdispatch.mark_trim m limit 1) m left join (select e.id from pgdispatch.epoch e limit 1) e on true
    cross join lateral (
        select array_agg(q.lease_token) as tokens, coalesce(bool_or(q.claimed_by = owner and q.lease_expires_at > at_time), false) as holds,
               coalesce(bool_or(q.lost_lease_count >= 2 and q.claimed_by = owner and q.lease_expires_at > at_time), false) as guards,
               coalesce(bool_or(q.lease_expires_at <= at_time), false) as expired
        from pgdispatch.workflow_execution_queue q
        where q.stage in ('HOLDS', 'DOUBT') and q.status = 'CLAIMED'
          and q.lease_token > case when e.id = own_epoch then leased_to else m.leased_from - 1 end
    ) n
    cross join lateral (
        select array_agg(coalesce(w.slots, 1)) as limits, array_agg(coalesce(k.holders, b.holders)) as holders,
               array_agg(k.holders) as counted, array_agg(k.lowest) as lowest, array_agg(coalesce(w.paused, false)) as pauses,
               array_agg(w.rate) as rates, array_agg(w.allowed) as allowed, array_agg(w.number) as numbers,
               array_agg(coalesce(w.most, 1)) as mosts, array_agg(coalesce(c.slots, 1)) as caps
        from unnest(workspaces, items, floors, held, held_to, bursts) as p (workspace_id, items, floor, held, held_to, burst)
        -- A deleted workspace keeps one slot, through which its items are failed one by one.
        left join lateral (
            select n.slots, w.paused, w.max_starts_per_second as rate, w.wake_number as number,
                   pgdispatch.burst_limit(n.slots, coalesce(w.max_burst_workflows, t.max_burst_workflows)) as most,
                   case when w.max_starts_per_second is not null then least(greatest(w.max_starts_per_second, 1), (
                       -- Refilled at the rate that applied until now, to at most one second's worth of it.
                       select least(greatest(r.per_second, 1), r.tokens + r.per_second * greatest(extract(epoch from at_time - r.at), 0))
                       from pgdispatch.rates r where r.workspace_id = w.id)) end as allowed
            from pgdispatch.workspaces w join pgdispatch.workspace_tiers t on t.plan = w.plan
            cross join lateral (select coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows) as slots offset 0) n
            where w.id = p.workspace_id offset 0
        ) w on true
        cross join lateral (select case when p.burst then w.most else w.slots end as slots,
                                   case when p.burst then 0 else coalesce(w.slots, 1) end as known offset 0) c
        cross join lateral (select case when e.id = own_epoch and p.held_to <= t.last then p.held + (t.last - p.held_to) end as holders offset 0) b
        left join lateral (
            select count(*)::integer as holders, min(q.lease_token) as lowest from pgdispatch.workflow_execution_queue q
            where q.workspace_id = p.workspace_id and q.stage in ('HOLDS', 'DOUBT')
              and q.lease_token >= case when b.holders is not null then p.floor else 0 end
              and (b.holders + p.items >= c.known) is not false
            having (b.holders + p.items >= c.known) is not false
        ) k on true
    ) l;
    room := case when paused or waits then 0 else greatest(room, 0) end;
    grants := used;
    for n in 1 .. coalesce(cardinality(workspaces), 0) loop
        continue when pauses[n];
        first := array_position(workspaces, workspaces[n]);
        grants[n] := greatest(least(items[n], caps[n] - holders[first] - used[first], floor(allowed[first]) - used[first]), 0);
        used[first] := used[first] + grants[n];
    end loop;
end;
$$;
