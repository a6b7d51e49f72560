-- For claim. Returns which rows to claim and how the proposal's
-- entries stand.
create or replace function pgdispatch.claim_choose(owner text, own_epoch uuid, at_most integer, doubts integer, alone boolean,
    leased integer, leased_to bigint, workspaces uuid[], priorities integer[], items integer[], due timestamptz[], ids bigint[],
    floors bigint[], held integer[], held_to bigint[], careful boolean, own_namespace text, namespaces text[], allowed integer[],
    keys text[], -- of the entries; null without any
    bursts boolean[], -- which entries may go beyond the limit of their workspace; null: none
    out at_time timestamptz, out heads tid[], out next_place integer[], out next_due timestamptz[], out next_id bigint[],
    out epoch uuid, out paused boolean, out room integer, out last_token bigint, out tokens bigint[], out grants integer[],
    out facts bigint[], out rates double precision[], out allows double precision[], out counts bigint[], out took bigint,
    out own double precision[], out shared double precision[], out rated boolean)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    g record;
    h record;
    k record;
    most integer; -- over all entries
    repeated tid[];
begin
    perform pgdispatch.lock_claims();
    at_time := clock_timestamp();
    if keys is not null then
        k := pgdispatch.claim_keys(workspaces, keys, at_time, items);
        items := k.items; own := k.own; shared := k.shared; rated := k.rated;
    end if;
    -- Assignments, because a SELECT would cost more than all of them.
    g := pgdispatch.claim_grants(owner, alone, own_epoch, leased, leased_to, workspaces, items, floors, held, held_to, at_time, bursts);
    epoch := g.epoch; paused := g.paused; room := g.room; last_token := g.last_token; tokens := g.tokens; grants := g.grants;
    facts := g.facts; rates := g.rates; allows := g.allows; counts := g.counts;
    if g.expired then
        perform pgdispatch.requeue_expired(1000); -- does not wait for a sweeper; they still count in this claim
    end if;
    most := least(at_most, room);
    if doubts > 0 and most > 0 then
        repeated := pgdispatch.claim_doubts(least(doubts, most), alone, at_time, own_namespace, namespaces, allowed);
        -- While namespaces are limited, nothing is claimed besides repeated starts.
        most := case when cardinality(repeated) > 0 and cardinality(namespaces) > 0 then 0 else most - cardinality(repeated) end;
    end if;
    h := pgdispatch.claim_heads(workspaces, priorities, grants, due, ids, most, at_time, careful, own_namespace, namespaces, allowed, keys);
    heads := repeated || h.heads; next_place := h.next_place; next_due := h.next_due; next_id := h.next_id;
end;
$$;
