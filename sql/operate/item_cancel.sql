-- PENDING -> CANCELLED
-- $1 items, $2 who. Withdraws those that wait, and returns them.
with named as materialized (
    select q.id, q.execution_id from pgdispatch.workflow_execution_queue q where q.id = any ($1::bigint[]) order by q.id
), cancelled as materialized (
    select n.id from named n cross join lateral pgdispatch.cancel(n.execution_id) as c (done) where c.done
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $2::text, 'items cancel', 'items', jsonb_build_object('items', jsonb_agg(c.id order by c.id))
    from cancelled c
    having count(*) > 0
)
select c.id from cancelled c
