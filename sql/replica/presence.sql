-- Which replicas live, and what a replica that stops gives back.

-- name: replica_alive
-- writes replicas
-- $1 replica, $2 version, $3 workers, $4 lease, $5 the namespace of definitions that name none, $6 its state.
insert into pgdispatch.replicas (id, version, workers, expires_at, namespace, state)
values ($1, $2, $3, clock_timestamp() + $4::interval, $5, $6::text::jsonb)
on conflict (id) do update set expires_at = excluded.expires_at, renewed_at = excluded.renewed_at, state = excluded.state

-- name: replica_gone
-- writes replicas
-- $1 replica. Frees its watches at once. Also deletes rows of others that expired more than a day ago.
delete from pgdispatch.replicas r
where r.id = $1 or r.expires_at < clock_timestamp() - interval '1 day'

-- name: release_owned
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
