-- CLAIMED -> FAILED
-- Permanent failure, without a workflow. Durable, because others act upon it, and another try might succeed.
-- $1 ids, $2 tokens, $3 errors.
-- Lists, and the holder instead of the status, so that every plan reads only these rows.
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
    join pgdispatch.workflow_execution_queue was on was.id = done.id -- returning sees only the new row
    where q.id = done.id
      and q.id = any ($1::bigint[])
      and q.lease_token = done.token
      and q.claimed_by is not null
      and q.lease_expires_at > clock_timestamp()
    returning q.id, q.execution_id, q.failure_count, q.attempt_count, q.last_error, was.claimed_by
), noted as (
    insert into pgdispatch.item_failures (item_id, failure, attempt, error, replica)
    select m.id, m.failure_count, m.attempt_count, m.last_error, m.claimed_by
    from moved m
    where m.failure_count <= 100
    on conflict do nothing -- a count that was reset by hand
), closed as (
    update pgdispatch.workflow_executions e
    set status = 'FAILED', error = moved.last_error, finished_at = clock_timestamp()
    from moved
    where e.id = moved.execution_id
)
select id from moved where pgdispatch.commit_durably()
