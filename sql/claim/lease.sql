-- Leases: renewed by their owner, taken back when they have expired.

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
-- transaction is moving is skipped. An item that a user's trigger or constraint does not let go is parked and does not
-- hold up the others.
create or replace function pgdispatch.requeue_expired(at_most integer) returns integer
language plpgsql volatile
as $$
declare
    at_time constant timestamptz := clock_timestamp();
    expired constant bigint[] := array(
        select q.id
        from pgdispatch.workflow_execution_queue q
        where q.stage in ('HOLDS', 'DOUBT') and q.lease_token >= (select t.leased_from from pgdispatch.mark_trim t)
          and q.status = 'CLAIMED' and q.lease_expires_at <= at_time
          and q.id <> all ({{ template "parked" }})
        order by q.id
        limit at_most
        for update skip locked
    );
    item bigint;
    requeued integer := 0;
begin
    begin
        return pgdispatch.requeue(expired);
    exception
        when lock_not_available or deadlock_detected then raise;
        when others then null; -- which one, the loop finds out
    end;
    foreach item in array expired loop
        begin
            requeued := requeued + pgdispatch.requeue(array[item]);
        exception
            when lock_not_available or deadlock_detected then null; -- the next sweep
            when others then
                insert into pgdispatch.parked_items as p (item_id, error, attempts, try_at)
                select q.id, left('its expired lease cannot be ended: ' || sqlerrm, 2000), q.attempt_count, at_time + interval '1 min'
                from pgdispatch.workflow_execution_queue q where q.id = item
                on conflict (item_id) do update
                set error = excluded.error, attempts = excluded.attempts, tries = p.tries + 1, try_at = excluded.try_at;
        end;
    end loop;
    return requeued;
end;
$$;
