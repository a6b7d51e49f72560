-- CLAIMED -> PENDING, for items whose lease ran out. The owner may have started the workflow, so the item keeps its slot until it is answered.
-- Lost are holders that may have died of the item. One that said it lives, in the second half of the lease, did not: the answer to
-- its claim was lost, or its claim's commit hung, and however often that happens, it is no fault of the item.
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
