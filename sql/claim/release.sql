-- CLAIMED -> PENDING
-- Released through no fault of the item: neither an attempt nor a failure is counted.
-- $1 ids, $2 tokens, $3 errors ('' for none), $4 how long each waits (0: it keeps its place), $5 whether a start was sent
-- and not answered.
-- Lists, and the holder instead of the status, so that every plan reads only these rows.
update pgdispatch.workflow_execution_queue q
set status = 'PENDING',
    attempt_count = greatest(q.attempt_count - 1, 0),
    lost_lease_count = 0,
    outcome_unknown = q.outcome_unknown or done.unknown,
    run_at = case when done.delay > '0' then clock_timestamp() + done.delay else q.run_at end,
    last_error = coalesce(nullif(done.error, ''), q.last_error),
    claimed_by = null,
    claimed_at = null,
    lease_expires_at = null
from unnest($1::bigint[], $2::bigint[], $3::text[], $4::interval[], $5::boolean[]) as done (id, token, error, delay, unknown)
where q.id = done.id
  and q.id = any ($1::bigint[])
  and q.lease_token = done.token
  and q.claimed_by is not null
  and q.lease_expires_at > clock_timestamp()
returning q.id
