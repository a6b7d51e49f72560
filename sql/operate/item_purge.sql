-- writes items that have ended, their executions and history, by deleting them, and the audit log
-- $1 items, $2 who. Deletes those that have ended, and returns them. The others hold slots, or may yet.
with ended as materialized (
    select q.id, q.execution_id from pgdispatch.workflow_execution_queue q
    where q.id = any ($1::bigint[]) and q.status in ('COMPLETED', 'FAILED', 'CANCELLED')
    order by q.id
    for update
), purged as materialized (
    delete from pgdispatch.workflow_execution_queue q
    where q.id = any (array(select e.id from ended e))
    returning q.id
), gone as (
    delete from pgdispatch.workflow_executions x
    where x.id = any (array(select e.execution_id from ended e)) and x.finished_at is not null
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $2::text, 'items purge', 'items', jsonb_build_object('items', jsonb_agg(p.id order by p.id))
    from purged p
    having count(*) > 0
)
select p.id from purged p
