-- For bring_back_items: changes these items, which the caller has locked, and their witnesses. A lease starts again from
-- now: no living holder assumes a later expiry than the one set here, and holders renew it as usual.
create or replace function pgdispatch.bring_back_some(ids bigint[], at_time timestamptz) returns integer
language sql volatile
as $$
    with brought as (
        update pgdispatch.workflow_execution_queue q
        set run_at = least(q.run_at, at_time + case when q.status = 'PENDING'
                then coalesce(q.run_at - pgdispatch.run_at_witness(q.id, q.run_at, q.created_at, q.failure_count), '0') else '0' end),
            created_at = least(q.created_at, at_time),
            claimed_at = case when q.claimed_at > at_time then at_time else q.claimed_at end,
            lease_expires_at = case when q.claimed_at > at_time then at_time + (q.lease_expires_at - q.claimed_at) else q.lease_expires_at end
        where q.id = any (ids)
        returning 1
    ), failed as (
        update pgdispatch.item_failures f set failed_at = at_time where f.item_id = any (ids) and f.failed_at > at_time
    ), debounced as (
        update pgdispatch.enqueue_keys k set debounced_at = at_time where k.item_id = any (ids) and k.debounced_at > at_time
    )
    select count(*)::integer from brought;
$$;
