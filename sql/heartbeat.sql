-- CLAIMED -> CLAIMED
-- $1 ids, $2 tokens, $3 lease. An id that does not come back is lost: expiry is final, even where no sweeper was by.
update pgdispatch.workflow_execution_queue q
set lease_expires_at = clock_timestamp() + $3::interval
from unnest($1::bigint[], $2::bigint[]) as held (id, token)
where q.id = held.id
  and q.lease_token = held.token
  and q.status = 'CLAIMED'
  and q.lease_expires_at > clock_timestamp()
returning q.id
