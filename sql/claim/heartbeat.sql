-- CLAIMED -> CLAIMED
-- $1 ids, $2 tokens, $3 lease. An id that is not returned is lost: expiry is final, even before a sweep.
-- Lists, and the holder instead of the status, so that every plan reads only these rows.
update pgdispatch.workflow_execution_queue q
set lease_expires_at = clock_timestamp() + $3::interval,
    claimed_at = least(q.claimed_at, clock_timestamp()) -- later only if the clock was set back: see bring_back
from unnest($1::bigint[], $2::bigint[]) as held (id, token)
where q.id = held.id
  and q.id = any ($1::bigint[])
  and q.lease_token = held.token
  and q.claimed_by is not null
  and q.lease_expires_at > clock_timestamp()
returning q.id
