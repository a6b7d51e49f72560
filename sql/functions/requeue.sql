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
