-- CLAIMED -> DISPATCHED
-- $1 ids, $2 tokens, $3 run IDs, $4 watcher: the replica that will wait for their end.
with moved as (
    update pgdispatch.workflow_execution_queue q
    set status = 'DISPATCHED',
        dispatched_at = clock_timestamp(),
        outcome_unknown = false,
        last_error = null,
        claimed_by = null,
        lease_expires_at = null
    from unnest($1::bigint[], $2::bigint[], $3::text[]) as done (id, token, run_id)
    where q.id = done.id
      and q.lease_token = done.token
      and q.status = 'CLAIMED'
      and q.lease_expires_at > clock_timestamp()
    returning q.id, q.execution_id, done.run_id
), started as (
    update pgdispatch.workflow_executions e
    set status = 'RUNNING', run_id = moved.run_id, started_at = clock_timestamp(), watcher = $4
    from moved
    where e.id = moved.execution_id
)
select id from moved
