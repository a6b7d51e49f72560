-- CLAIMED -> PENDING
-- $1 owner, $2 the last token that it knows. Releases what it has claimed since: it could not read the answer of that
-- claim, so it has started none of them.
update pgdispatch.workflow_execution_queue q
set status = 'PENDING',
    attempt_count = greatest(q.attempt_count - 1, 0),
    claimed_by = null,
    claimed_at = null,
    lease_expires_at = null
where q.stage in ('HOLDS', 'DOUBT')
  and q.lease_token > $2
  and q.claimed_by = $1
  and q.status = 'CLAIMED'
  and q.lease_expires_at > clock_timestamp()
returning q.id
