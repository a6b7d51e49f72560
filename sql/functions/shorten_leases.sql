-- CLAIMED -> CLAIMED, for leases from before the database's clock was set back. If it went back an hour, a dead
-- holder's lease would last an hour longer. Claims and heartbeats write the current time, so a claimed_at in the future
-- proves that neither happened since. Less than a second is ignored. The lease starts again from now: no living holder
-- assumes a later expiry than the one set here, and holders renew it as usual.
-- Does the same for the presence of replicas. Returns how many leases were shortened.
create or replace function pgdispatch.shorten_leases() returns integer
language sql volatile
as $$
    with ahead as materialized (
        select q.id
        from pgdispatch.workflow_execution_queue q
        where q.stage in ('HOLDS', 'DOUBT') and q.lease_token >= (select t.leased_from from pgdispatch.mark_trim t)
          and q.status = 'CLAIMED' and q.claimed_at > clock_timestamp() + interval '1 second'
        order by q.id
        for update skip locked
    ), shortened as (
        update pgdispatch.workflow_execution_queue q
        set lease_expires_at = clock_timestamp() + (q.lease_expires_at - q.claimed_at),
            claimed_at = clock_timestamp()
        where q.id = any (array(select a.id from ahead a))
        returning q.id
    ), replicas_ahead as materialized (
        select r.id
        from pgdispatch.replicas r
        where r.renewed_at > clock_timestamp() + interval '1 second'
        order by r.id
        for update skip locked
    ), replicas_shortened as (
        update pgdispatch.replicas r
        set expires_at = clock_timestamp() + (r.expires_at - r.renewed_at),
            renewed_at = clock_timestamp()
        where r.id = any (array(select a.id from replicas_ahead a))
    )
    select count(*)::integer from shortened;
$$;
