-- PENDING -> PENDING
-- $1 items, $2 who. Makes those that are PENDING due now, and returns them.
with locked as materialized (
    select q.id from pgdispatch.workflow_execution_queue q
    where q.id = any ($1::bigint[]) and q.status = 'PENDING'
    order by q.id
    for update
), retried as (
    update pgdispatch.workflow_execution_queue q
    set run_at = least(q.run_at, clock_timestamp())
    from locked l
    where q.id = l.id and q.status = 'PENDING'
    returning q.id
), unparked as (
    delete from pgdispatch.parked_items p where p.item_id = any (array(select r.id from retried r))
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $2::text, 'items retry', 'items', jsonb_build_object('items', jsonb_agg(r.id order by r.id))
    from retried r
    having count(*) > 0
)
select r.id from retried r
