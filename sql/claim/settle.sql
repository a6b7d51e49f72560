-- How claims end.

-- name: dispatched
-- CLAIMED -> DISPATCHED
-- $1 ids, $2 tokens, $3 run IDs, $4 watcher: the replica that will watch for their end (null: no room). A token belongs
-- to one claim of one item.
-- Lists instead of joins, and the holder instead of the status, so that every plan reads only these rows.
with moved as (
    update pgdispatch.workflow_execution_queue q
    set status = 'DISPATCHED',
        dispatched_at = clock_timestamp(),
        outcome_unknown = false,
        last_error = null,
        claimed_by = null,
        lease_expires_at = null
    where q.id = any ($1::bigint[])
      and q.lease_token = any ($2::bigint[])
      and q.claimed_by is not null
      and q.lease_expires_at > clock_timestamp()
    returning q.id, q.execution_id
), started as (
    update pgdispatch.workflow_executions e
    set status = 'RUNNING', started_at = clock_timestamp(), watcher = $4,
        run_id = ($3::text[])[array_position($1::bigint[], e.queue_item_id)]
    where e.id = any (array(select m.execution_id from moved m))
)
select id from moved

-- name: retry
-- CLAIMED -> PENDING
-- The item's own failure: it is counted and recorded, and the item waits.
-- $1 ids, $2 tokens, $3 errors, $4 how long each waits, $5 whether a start may have been sent and not answered, then or
-- before. Such an item keeps its slot.
-- Lists, and the holder instead of the status, so that every plan reads only these rows.
with moved as (
    update pgdispatch.workflow_execution_queue q
    set status = 'PENDING',
        failure_count = q.failure_count + 1,
        lost_lease_count = 0,
        outcome_unknown = done.sent,
        last_error = done.error,
        run_at = clock_timestamp() + done.delay,
        claimed_by = null,
        claimed_at = null,
        lease_expires_at = null
    from unnest($1::bigint[], $2::bigint[], $3::text[], $4::interval[], $5::boolean[])
        as done (id, token, error, delay, sent)
    join pgdispatch.workflow_execution_queue was on was.id = done.id -- returning sees only the new row
    where q.id = done.id
      and q.id = any ($1::bigint[])
      and q.lease_token = done.token
      and q.claimed_by is not null
      and q.lease_expires_at > clock_timestamp()
    returning q.id, q.failure_count, q.attempt_count, q.last_error, was.claimed_by
), noted as (
    insert into pgdispatch.item_failures (item_id, failure, attempt, error, replica)
    select m.id, m.failure_count, m.attempt_count, coalesce(m.last_error, ''), m.claimed_by
    from moved m
    where m.failure_count <= 100
    on conflict do nothing -- a count that was reset by hand
)
select id from moved

-- name: release
-- CLAIMED -> PENDING
-- Released through no known fault of the item: neither an attempt nor a failure is counted.
-- $1 ids, $2 tokens, $3 errors ('' for none), $4 how long each waits (0: it keeps its place), $5 whether a start may have
-- been sent and not answered, $6 whether others of its namespace were accepted meanwhile. In both cases the item keeps its
-- slot. $7 whether Temporal does not find the workflow of an item that is to fail.
-- Lists, and the holder instead of the status, so that every plan reads only these rows.
with moved as (
    update pgdispatch.workflow_execution_queue q
    set status = 'PENDING',
        attempt_count = greatest(q.attempt_count - 1, 0),
        lost_lease_count = case when done.missing then q.lost_lease_count else 0 end, -- it may be why the item is to fail
        outcome_unknown = done.sent or done.alone,
        run_at = case when done.delay > '0' then clock_timestamp() + done.delay else q.run_at end,
        last_error = coalesce(nullif(done.error, ''), q.last_error),
        claimed_by = null,
        claimed_at = null,
        lease_expires_at = null
    from unnest($1::bigint[], $2::bigint[], $3::text[], $4::interval[], $5::boolean[], $6::boolean[], $7::boolean[])
        as done (id, token, error, delay, sent, alone, missing)
    where q.id = done.id
      and q.id = any ($1::bigint[])
      and q.lease_token = done.token
      and q.claimed_by is not null
      and q.lease_expires_at > clock_timestamp()
    returning q.id, q.execution_id, q.outcome_unknown, done.delay, done.sent, done.alone,
              case when done.missing then clock_timestamp() end as missing_at
), tried as (
    insert into pgdispatch.start_tries as t (item_id, tries, since, tried_at, missing_since, missing_at)
    select m.id, m.alone::integer, case when m.alone then clock_timestamp() end, clock_timestamp(), m.missing_at, m.missing_at
    from moved m where m.delay > '0'
    on conflict (item_id) do update
    set tries = t.tries + excluded.tries, since = coalesce(t.since, excluded.since), tried_at = excluded.tried_at,
        -- Only answers count. Those that are too far apart begin again.
        missing_since = case when excluded.missing_at is null then t.missing_since
                             when t.missing_at > excluded.missing_at - interval '3 minutes' then least(t.missing_since, excluded.missing_since)
                             else excluded.missing_since end,
        missing_at = coalesce(excluded.missing_at, t.missing_at)
), unsent as ( -- the item keeps its slot, but its workflow cannot have been started
    update pgdispatch.workflow_executions e set first_sent_at = null
    where e.id = any (array(select m.execution_id from moved m where m.outcome_unknown and not m.sent))
)
select id from moved

-- name: hasten
-- PENDING -> PENDING
-- $1 ids. Items that wait for another try are due now, because others of their namespace start again. Their tries do not
-- count: it was the namespace that failed. Locked items wait for their time.
with hastened as (
    update pgdispatch.workflow_execution_queue q
    set run_at = clock_timestamp()
    where q.id = any (array(
            select o.id from pgdispatch.workflow_execution_queue o
            join pgdispatch.start_tries t on t.item_id = o.id
            where o.id = any ($1::bigint[]) and o.stage in ('WAITS', 'DOUBT') and o.status = 'PENDING' and o.run_at > clock_timestamp()
              and o.run_at < t.tried_at + interval '31 seconds' -- the longest delay, see dispatch/evidence.go
            order by o.id
            for update of o skip locked))
    returning q.id
), forgiven as (
    update pgdispatch.start_tries t set tries = 0, since = null
    where t.item_id = any (array(select h.id from hastened h))
)
select id from hastened

-- name: fail
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

-- name: last_token
-- reads
-- The last lease token that was drawn.
select coalesce(pg_sequence_last_value('pgdispatch.lease_tokens'), 0)

-- name: release_unread
-- CLAIMED -> PENDING
-- $1 owner, $2 and $3 the last tokens that were drawn before and after a claim of it. Releases what that claim has taken:
-- the owner could not read the answer, so it has started none of them. Postgres may execute this late, when the owner
-- holds other items: their tokens are greater.
update pgdispatch.workflow_execution_queue q
set status = 'PENDING',
    attempt_count = greatest(q.attempt_count - 1, 0),
    claimed_by = null,
    claimed_at = null,
    lease_expires_at = null
where q.stage in ('HOLDS', 'DOUBT')
  and q.lease_token > $2
  and q.lease_token <= $3
  and q.claimed_by = $1
  and q.status = 'CLAIMED'
  and q.lease_expires_at > clock_timestamp()
returning q.id
