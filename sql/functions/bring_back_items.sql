-- For bring_back: leases, and the items that wait. A run_at that pgdispatch has set has a witness: see run_at_witness. If
-- that is ahead, the item waits from now for as long as it was to wait then. Claims and heartbeats write the current
-- time, so a claimed_at that is ahead proves that neither has happened since; a claimed item was due.
-- An item that a user's trigger or constraint does not let change does not hold up the others.
create or replace function pgdispatch.bring_back_items(at_time timestamptz, at_most integer) returns integer
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    soon constant timestamptz := at_time + interval '1 second';
    debounced constant bigint[] := array(select k.item_id from pgdispatch.enqueue_keys k where k.debounced_at > soon);
    ahead constant bigint[] := array(
        select q.id
        from pgdispatch.workflow_execution_queue q
        where q.stage = 'WAITS' and q.enqueue_xid >= '0' and q.run_at > soon
          and (q.created_at = q.run_at or q.failure_count > 0 or q.id = any (debounced))
          and pgdispatch.run_at_witness(q.id, q.run_at, q.created_at, q.failure_count) > soon
        order by q.enqueue_xid, q.workspace_id, q.priority, q.run_at -- as an index, which is read only until at_most
        limit at_most
        for update skip locked
    ) || array(
        select q.id
        from pgdispatch.workflow_execution_queue q
        where q.stage = 'DOUBT' and q.status = 'PENDING' and q.run_at > soon
          -- Without a witness: it was due when its start was sent. If its workflow was busy, it waits for a second.
          and coalesce(pgdispatch.run_at_witness(q.id, q.run_at, q.created_at, q.failure_count), q.run_at - interval '2 seconds') > soon
        order by q.run_at, q.id
        limit at_most
        for update skip locked
    ) || array(
        select q.id
        from pgdispatch.workflow_execution_queue q
        where q.stage in ('HOLDS', 'DOUBT') and q.lease_token >= (select t.leased_from from pgdispatch.mark_trim t)
          and q.status = 'CLAIMED' and (q.claimed_at > soon or q.run_at > soon)
        order by q.lease_token
        limit at_most
        for update skip locked
    );
    item bigint;
    brought integer := 0;
begin
    if ahead = '{}' then
        return 0;
    end if;
    begin
        return pgdispatch.bring_back_some(ahead, at_time);
    exception
        when lock_not_available or deadlock_detected then raise;
        when others then null; -- which one, the loop finds out
    end;
    foreach item in array ahead loop
        begin
            brought := brought + pgdispatch.bring_back_some(array[item], at_time);
        exception
            when others then null;
        end;
    end loop;
    return brought;
end;
$$;
