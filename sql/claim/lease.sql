-- Leases: renewed by their owner, taken back when they have expired.

{{- /* Whether a claim is uncertain: it was taken back from item q because its lease had expired, or because its holder did not
       know of it. The holder was lost, or never got the answer to its claim, so its start may have been sent or not. */ -}}
{{ define "uncertain" }}
coalesce(q.last_error like 'lease of % expired' or q.last_error like 'claim by % was lost', false)
{{- end }}

-- name: heartbeat
-- CLAIMED -> CLAIMED
-- $1 ids, $2 tokens, $3 lease. An id that is not returned is lost: expiry is final, even before a sweep.
-- Lists, and the holder instead of the status, so that every plan reads only these rows.
update pgdispatch.workflow_execution_queue q
set lease_expires_at = clock_timestamp() + $3::interval,
    claimed_at = least(q.claimed_at, clock_timestamp()) -- later only if the clock was set back: see bring_back
from unnest($1::bigint[], $2::bigint[]) as held (id, token)
where q.id = held.id
  and q.id = any ($1::bigint[])
  and q.lease_token = held.token
  and q.claimed_by is not null
  and q.lease_expires_at > clock_timestamp()
returning q.id

-- name: give_back
-- CLAIMED -> PENDING
-- $1 owner, $2 the tokens that it holds, $3 the last token that was drawn. Takes back what else is claimed in its name: the
-- answer to that claim was lost, or a failover forgot how the claim was settled. A start may have been sent, so the item
-- keeps its slot until its start is answered. Postgres may execute this late, when the owner holds other items: their
-- tokens are greater. A row that another transaction is moving is skipped, as is one whose lease has expired: see requeue.
update pgdispatch.workflow_execution_queue q
set status = 'PENDING',
    lease_token = nextval('pgdispatch.lease_tokens'),
    outcome_unknown = true,
    last_error = 'claim by ' || q.claimed_by || ' was lost',
    claimed_by = null,
    claimed_at = null,
    lease_expires_at = null
where q.id in (
    select l.id
    from pgdispatch.workflow_execution_queue l
    where l.stage in ('HOLDS', 'DOUBT') and l.lease_token >= (select t.leased_from from pgdispatch.mark_trim t)
      and l.status = 'CLAIMED' and l.claimed_by = $1 and l.lease_token <> all ($2::bigint[])
      and l.lease_token <= $3
      and l.lease_expires_at > clock_timestamp()
    for update skip locked)
returning q.id

-- name: behind
-- reads
-- $1 a claimed item that names a workflow ID. Returns whether another item of the same one is to be started first: one
-- that was claimed before and is not settled, or one whose start was sent and not answered. Of several such, the first
-- enqueued is first.
select exists (
    select from pgdispatch.workflow_execution_queue q
    join pgdispatch.workflow_executions e on e.id = q.execution_id
    join pgdispatch.workflow_executions n on n.workflow_id = e.workflow_id and n.namespace = e.namespace and n.finished_at is null and n.id <> e.id
    join pgdispatch.workflow_execution_queue o on o.execution_id = n.id
    where q.id = $1::bigint
      and case when q.outcome_unknown then o.outcome_unknown and o.id < q.id
               else o.outcome_unknown or o.status = 'CLAIMED' and o.lease_token < q.lease_token end)

-- function: requeue
-- CLAIMED -> PENDING, for items whose lease expired. The owner may have started the workflow, so the item keeps its
-- slot until its start is answered. A lost lease counts only if the item may have killed its holder. A holder that
-- renewed its presence in the second half of the lease was alive: the answer to its claim was lost, or its claim's
-- commit hung. That never counts against the item.
create or replace function pgdispatch.requeue(items bigint[]) returns integer
language sql volatile
as $$
    with requeued as (
        update pgdispatch.workflow_execution_queue q
        set status = 'PENDING',
            lease_token = nextval('pgdispatch.lease_tokens'),
            lost_lease_count = q.lost_lease_count + case when exists (
                select from pgdispatch.replicas r
                where r.id = q.claimed_by and r.renewed_at > q.lease_expires_at - (r.expires_at - r.renewed_at) / 2) then 0 else 1 end,
            outcome_unknown = true,
            last_error = 'lease of ' || q.claimed_by || ' expired',
            claimed_by = null,
            claimed_at = null,
            lease_expires_at = null
        where q.id = any (items) and q.claimed_by is not null and q.lease_expires_at <= clock_timestamp()
        returning q.id
    )
    select count(*)::integer from requeued;
$$;

-- function: requeue_expired
-- CLAIMED -> PENDING, for expired leases. Safe to run concurrently with itself and with claims: a row that another
-- transaction is moving is skipped.
create or replace function pgdispatch.requeue_expired(at_most integer) returns integer
language plpgsql volatile
as $$
declare
    at_time constant timestamptz := clock_timestamp();
begin
    return pgdispatch.sweep_items(false, array(
        select q.id
        from pgdispatch.workflow_execution_queue q
        where q.stage in ('HOLDS', 'DOUBT') and q.lease_token >= (select t.leased_from from pgdispatch.mark_trim t)
          and q.status = 'CLAIMED' and q.lease_expires_at <= at_time
          and q.id <> all ({{ template "parked" }})
        order by q.id
        limit at_most
        for update skip locked
    ));
end;
$$;

-- function: cancel_late
-- PENDING -> CANCELLED, for items that were not claimed before their start_before. An item that was claimed and failed
-- was in time, and one whose start was sent and not answered does not wait. Concurrent calls are safe, as above.
create or replace function pgdispatch.cancel_late(at_most integer) returns integer
language plpgsql volatile
as $$
declare
    at_time constant timestamptz := clock_timestamp();
begin
    return pgdispatch.sweep_items(true, array(
        select q.id
        from pgdispatch.workflow_execution_queue q
        where q.stage = 'WAITS' and q.failure_count = 0 and q.start_before <= at_time
          and q.id <> all ({{ template "parked" }})
        order by q.start_before
        limit at_most
        for update skip locked
    ));
end;
$$;

-- function: withdraw_late
-- PENDING -> CANCELLED. For cancel_late.
create or replace function pgdispatch.withdraw_late(items bigint[]) returns integer
language sql volatile
as $$
    with cancelled as (
        update pgdispatch.workflow_execution_queue q
        set status = 'CANCELLED', finished_at = clock_timestamp(),
            last_error = 'not claimed before start_before, ' || to_char(q.start_before at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
        where q.id = any (items) and q.stage = 'WAITS'
        returning q.id, q.execution_id
    ), closed as ( -- a claim that was released has left a row
        update pgdispatch.workflow_executions e
        set status = 'CANCELED', finished_at = clock_timestamp()
        where e.id = any (array(select c.execution_id from cancelled c))
    )
    select count(*)::integer from cancelled;
$$;

-- function: sweep_items
-- For the two functions above: withdraws or requeues items and returns how many. An item that a user's trigger or
-- constraint does not let go is parked and does not hold up the others.
create or replace function pgdispatch.sweep_items(late boolean, items bigint[]) returns integer
language plpgsql volatile
as $$
declare
    item bigint;
    swept integer := 0;
begin
    begin
        return case when late then pgdispatch.withdraw_late(items) else pgdispatch.requeue(items) end;
    exception
        when lock_not_available or deadlock_detected then raise;
        when others then null; -- which one, the loop finds out
    end;
    foreach item in array items loop
        begin
            swept := swept + case when late then pgdispatch.withdraw_late(array[item]) else pgdispatch.requeue(array[item]) end;
        exception
            when lock_not_available or deadlock_detected then null; -- the next sweep
            when others then
                insert into pgdispatch.parked_items as p (item_id, error, attempts, try_at)
                select q.id, left(case when late then 'it cannot be cancelled after its start_before: '
                                       else 'its expired lease cannot be ended: ' end || sqlerrm, 2000),
                       q.attempt_count, clock_timestamp() + interval '1 min'
                from pgdispatch.workflow_execution_queue q where q.id = item
                on conflict (item_id) do update
                set error = excluded.error, attempts = excluded.attempts, tries = p.tries + 1, try_at = excluded.try_at;
        end;
    end loop;
    return swept;
end;
$$;
