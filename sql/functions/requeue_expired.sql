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
          and q.id <> all ({{ template "parts/parked.sql" }})
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
