-- $1 execution. Signals that are open, and that are not delivered; stop requests that are open; recorded failures; and
-- whether the execution has ended.
select (select count(*) from pgdispatch.signals s where s.execution_id = $1::text::uuid and s.state = 'OPEN')::integer,
       (select count(*) from pgdispatch.signals s where s.execution_id = $1::text::uuid and s.state <> 'DELIVERED')::integer,
       (select count(*) from pgdispatch.stop_requests s where s.execution_id = $1::text::uuid and s.state = 'OPEN')::integer,
       (select count(*) from pgdispatch.item_failures f join pgdispatch.workflow_execution_queue q on q.id = f.item_id
        where q.execution_id = $1::text::uuid)::integer,
       coalesce((select e.finished_at is not null from pgdispatch.workflow_executions e where e.id = $1::text::uuid), false)
