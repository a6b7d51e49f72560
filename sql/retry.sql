-- CLAIMED -> PENDING
-- By its holder rather than its status, which would have the planner read all claimed items and compare.
-- A failure of the item's own: it is counted, and the item waits.
-- $1 ids, $2 tokens, $3 errors, $4 how long each waits, $5 whether a start was sent that nobody answered.
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
where q.id = done.id
  and q.lease_token = done.token
  and q.claimed_by is not null
  and q.lease_expires_at > clock_timestamp()
returning q.id
