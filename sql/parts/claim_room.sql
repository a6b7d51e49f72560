{{- /* For claim: what there is to know before anything is looked at. room is what W leaves of what was asked for. */ -}}
token_floor := coalesce(pg_sequence_last_value('pgdispatch.least_lease_token'), 0);
last_token := coalesce(pg_sequence_last_value('pgdispatch.lease_tokens'), 0);
select b.at, b.seen, least(b.due_from, start_time), b.levels, b.served_from, b.aged_from, least(b.aged_turn, last_token),
       pg_snapshot_xmax(b.seen) > pg_snapshot_xmax(pg_current_snapshot()),
       start_time - s.priority_aging, s.paused, least(at_most, s.max_claims - n.leased), n.expired, coalesce(n.least_token, last_token), n.alone,
       exists (select from pgdispatch.ready_lanes(b.levels, b.served_from)), d.lane_due, d.unanswered_due,
       coalesce(d.unanswered_due <= start_time, false)
into book_at, seen, due_from, all_levels, served_floors, aged_floor, turn,
     restored, aged_before, halted, room, expired, least_token, alone, ready, lane_due, unanswered_due, unanswered
from (select b.ctid as at, b.* from pgdispatch.lane_book b order by b.version desc limit 1) b
cross join pgdispatch.settings s
cross join (
    select count(*) as leased, min(q.lease_token) as least_token, count(*) filter (where q.lease_expires_at <= start_time) as expired,
           coalesce(bool_or(q.lost_lease_count >= 2 and q.claimed_by = owner and q.lease_expires_at > start_time), false) as alone
    from pgdispatch.workflow_execution_queue q
    where q.status = 'CLAIMED' and q.lease_token >= token_floor
) n
cross join lateral (
    select (select l.next_due_at from pgdispatch.lanes l
            where l.active < l.slots and not l.paused and l.next_due_at >= least(b.due_from, start_time)
            order by l.next_due_at limit 1) as lane_due,
           (select q.run_at from pgdispatch.workflow_execution_queue q
            where q.status = 'PENDING' and q.outcome_unknown
            order by q.run_at limit 1) as unanswered_due
    offset 0
) d;
if expired > 0 then
    perform pgdispatch.requeue_expired(1000);
    select least(at_most, s.max_claims - n.leased), true into room, unanswered
    from pgdispatch.settings s
    cross join (select count(*) as leased from pgdispatch.workflow_execution_queue q
                where q.status = 'CLAIMED' and q.lease_token >= token_floor) n;
elsif least_token > token_floor + 100 and pg_current_xact_id_if_assigned() is null then
    -- Not where this transaction has settled something: that may be rolled back, and this is not.
    perform setval('pgdispatch.least_lease_token', least_token);
end if;
room := case when halted or alone then 0 else room end; -- alone: this owner holds a suspect, see claim_unanswered
seen := case when not restored then seen end; -- restored into another cluster, which counts its transactions anew
