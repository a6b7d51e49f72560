-- CLAIMED -> PENDING
-- The item's own failure: it is counted and recorded, and the item waits.
-- $1 ids, $2 tokens, $3 errors, $4 how long each waits, $5 whether a start was sent and not answered.
-- Lists, and the holder instead of the status, so that every plan reads only these rows.
with moved as (
    update pgdispatch.workflow_execution_queue q
    set status = 'PENDING',
        failure_count = q.failure_count + 1,
        lost_lease_count = 0,
        outcome_unknown = q.outcome_unknown or done.unknown,
        last_error = done.error,
        run_at = clock_timestamp() + done.delay,
        claimed_by = null,
        claimed_at = null,
        lease_expires_at = null
    from unnest($1::bigint[], $2::bigint[], $3::text[], $4::interval[], $5::boolean[])
        as done (id, token, error, delay, unknown)
    join pgdispatch.workflow_execution_queue was on was.id = done.id -- returning sees only the new row
    where q.id = done.id
      and q.id = any ($1::bigint[])
      and q.lease_token = done.token
      and q.claimed_by is not null
      and q.lease_expires_at > clock_timestamp()
    returning q.id, q.failure_count, q.attempt_count, q.last_error, was.claimed_by
), noted as (
    insert into pgdispatch.item_failures (item_id, failure, attempt, error, replica)
    select m.id, m.failure_count, m.attempt_count, coalesce(m.last_error, ''), m.claimed_by
    from moved m
    where m.failure_count <= 100
    on conflict do nothing -- a count that was reset by hand
)
select id from moved
