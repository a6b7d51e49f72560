-- For claim: takes its lock, re-reads the limits, counts who holds slots, and returns which rows to claim and how the
-- entries of the proposal stand. The receipts in the proposal only save counting. Each item that comes to hold a slot
-- draws the next token, so at most held + (last token - held_to) items of a workspace hold one. If that plus the items of
-- its entry is not below the limit, the holders are counted, from floor on. A receipt is true only while no commit is
-- lost, so one of another epoch is ignored.
--
-- The entries of one workspace share what it has, in their order. The holders of an entry in a burst are always counted,
-- so that the memory learns when the workspace is within its limit again. room is what W leaves in total. An owner that
-- holds an item that was lost twice gets nothing. next are the first positions left of the entries, due or not.
create or replace function pgdispatch.claim_pick(owner text, own_namespace text, p pgdispatch.claim_proposal,
    out at_time timestamptz, out epoch uuid, out paused boolean, out room integer, out last_token bigint, out tokens bigint[],
    out entries pgdispatch.claim_standing[], out next json, out rated boolean, out heads tid[], out took bigint)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    asked pgdispatch.claim_entry[];
    workspaces uuid[];
    keyed boolean; -- whether an entry has a limit key
    key_rated boolean; -- whether one of them has a rate
    known boolean; -- whether the receipts are of this epoch
    expired boolean;
    lost integer; -- how often, of what the owner holds
    e pgdispatch.claim_entry;
    s pgdispatch.claim_standing;
    slots integer; -- of the entry's workspace
    holders bigint; -- or more than hold
    most integer; -- over all entries
    first integer; -- entry of the workspace
    used integer[]; -- of what the workspace has, by its first entry
    repeated tid[];
begin
    perform pgdispatch.lock_claims();
    at_time := clock_timestamp();
    last_token := coalesce(pg_sequence_last_value('pgdispatch.lease_tokens'), 0);
    select s.paused, s.max_claims, e.id into paused, room, epoch
    from pgdispatch.settings s left join pgdispatch.epoch e on true;
    select l.entries, l.workspaces, l.keyed, l.rated into entries, workspaces, keyed, rated
    from pgdispatch.claim_limits(p, at_time) l;
    known := coalesce(epoch = p.epoch, false);
    if not known then
        p.leased := 0;
        p.leased_to := (select m.leased_from - 1 from pgdispatch.mark_trim m);
    end if;
    select array_agg(q.lease_token), coalesce(min(q.lease_expires_at) <= at_time, false),
           max(q.lost_lease_count) filter (where q.claimed_by = owner and q.lease_expires_at > at_time)
    into tokens, expired, lost
    from pgdispatch.workflow_execution_queue q
    where q.stage in ('HOLDS', 'DOUBT') and q.status = 'CLAIMED' and q.lease_token > p.leased_to;
    room := case when paused or lost >= 2 or p.alone and lost is not null then 0
                 else greatest(room - p.leased - coalesce(cardinality(tokens), 0), 0) end;
    asked := p.entries;
    if keyed then
        select k.asked, k.entries, k.rated into asked, entries, key_rated
        from pgdispatch.claim_key_limits(p.entries, entries, at_time) k;
        rated := rated or key_rated;
    end if;
    used := array_fill(0, array[coalesce(cardinality(asked), 0)]);
    for n in 1 .. cardinality(used) loop
        e := asked[n];
        s := entries[n];
        slots := case when e.burst then s.burst_slots else s.slots end;
        holders := case when known and e.held_to <= last_token then e.held + (last_token - e.held_to) end;
        if e.burst or (holders + e.items < slots) is not true then
            select count(*), min(q.lease_token) into s.holders, s.lowest_token
            from pgdispatch.workflow_execution_queue q
            where q.workspace_id = e.workspace_id and q.stage in ('HOLDS', 'DOUBT')
              and q.lease_token >= case when known and e.held_to <= last_token then e.floor else 0 end;
            holders := s.holders;
        end if;
        if not s.paused then
            first := array_position(workspaces, e.workspace_id);
            s.granted := greatest(least(e.items, slots - holders - used[first], floor(s.allows) - used[first]), 0);
            used[first] := used[first] + s.granted;
        end if;
        entries[n] := s;
    end loop;
    if expired then
        perform pgdispatch.requeue_expired(1000); -- does not wait for a sweeper; they still count in this claim
    end if;
    most := least(p.at_most, room);
    if p.unanswered > 0 and most > 0 then
        repeated := pgdispatch.claim_unanswered(least(p.unanswered, most), own_namespace, p, at_time);
        -- While namespaces are limited, nothing is claimed besides repeated starts.
        most := case when cardinality(repeated) > 0 and p.namespaces is not null then 0 else most - cardinality(repeated) end;
    end if;
    select repeated || h.heads, h.next into heads, next
    from pgdispatch.claim_rows(own_namespace, p, entries, keyed, most, at_time) h;
end;
$$;
