-- The settle statement from before the redesign.
-- CLAIMED -> DISPATCHED
-- $1 ids, $2 tokens, $3 run IDs, $4 watcher: the replica that will wait for their end (null if none has room). A token
-- belongs to one claim of one item.
-- Reads lists instead of joins, and filters by the holder instead of the status, so that any plan reads only these
-- rows.
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
