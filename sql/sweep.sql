-- CLAIMED -> PENDING
-- $1 at most. Returns how many leases had run out, in how many workspaces due items were found that had left no hint,
-- and how long until the next lease runs out (null: nothing is leased).
select pgdispatch.requeue_expired($1),
       pgdispatch.find_unnoticed(),
       (
           select min(q.lease_expires_at) - clock_timestamp()
           from pgdispatch.workflow_execution_queue q
           where q.status = 'CLAIMED' and q.lease_expires_at > clock_timestamp()
       )
