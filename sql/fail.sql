-- CLAIMED -> FAILED
-- By its holder rather than its status, which would have the planner read all claimed items and compare.
-- Failed for good, without a workflow. $1 ids, $2 tokens, $3 errors.
with moved as (
    update pgdispatch.workflow_execution_queue q
    set status = 'FAILED',
        failure_count = q.failure_count + 1,
        last_error = done.error,
        outcome_unknown = false,
        finished_at = clock_timestamp(),
        claimed_by = null,
        lease_expires_at = null
    from unnest($1::bigint[], $2::bigint[], $3::text[]) as done (id, token, error)
    where q.id = done.id
      and q.lease_token = done.token
      and q.claimed_by is not null
      and q.lease_expires_at > clock_timestamp()
    returning q.id, q.execution_id, q.last_error
), closed as (
    update pgdispatch.workflow_executions e
    set status = 'FAILED', error = moved.last_error, finished_at = clock_timestamp()
    from moved
    where e.id = moved.execution_id
)
select id from moved
