-- CLAIMED -> CLAIMED, for leases from before the database's clock was set back. By a clock that went back an hour, what a dead
-- holder had would be its own for an hour more. Claims and heartbeats write the present, so a claimed_at in the future proves
-- that neither was since; less than a second is not worth a word. The lease begins anew: no holder that lives believes in a
-- later end than the one it is given here, and each renews it as ever.
-- The same for what replicas have said of themselves. Returns how many leases were shortened.
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
