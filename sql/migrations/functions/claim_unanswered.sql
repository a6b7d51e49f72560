-- PENDING -> CLAIMED, for claim: items whose start was sent and not answered, the oldest first. They hold their slots already,
-- and only an answer can free them.
create function pgdispatch.claim_unanswered(owner text, at_most integer, lease interval, start_time timestamptz) returns bigint[]
language sql volatile
as $$
    with unanswered as materialized (
        select q.id
        from pgdispatch.workflow_execution_queue q
        where q.status = 'PENDING' and q.outcome_unknown and q.run_at <= start_time
          and not exists (select from pgdispatch.workspaces w where w.id = q.workspace_id and w.paused)
        order by q.run_at, q.id
        limit at_most
        for update of q skip locked
    ), taken as (
        update pgdispatch.workflow_execution_queue q
        set status = 'CLAIMED', claimed_by = owner, claimed_at = clock_timestamp(),
            lease_expires_at = clock_timestamp() + lease, lease_token = nextval('pgdispatch.lease_tokens'),
            attempt_count = q.attempt_count + 1
        where q.id = any (array(select u.id from unanswered u))
        returning q.id
    )
    select coalesce(array_agg(t.id), '{}') from taken t;
$$;
