-- CLAIMED -> PENDING
-- $1 owner. The last statement of a replica: it still holds claims whose answer it never got, or that it could not
-- settle. It may have started them, so they keep their slots. It lived, so no item is suspected of having killed it.
update pgdispatch.workflow_execution_queue q
set status = 'PENDING',
    attempt_count = greatest(q.attempt_count - 1, 0),
    lost_lease_count = 0,
    outcome_unknown = true,
    claimed_by = null,
    claimed_at = null,
    lease_expires_at = null
where q.stage in ('HOLDS', 'DOUBT')
  and q.lease_token >= (select t.leased_from from pgdispatch.mark_trim t)
  and q.claimed_by = $1
  and q.status = 'CLAIMED'
  and q.lease_expires_at > clock_timestamp()
returning q.id
