-- What belongs to items and limits that were deleted.
select ((select count(*) from pgdispatch.workflow_executions e
         where not exists (select from pgdispatch.workflow_execution_queue q where q.execution_id = e.id))
      + (select count(*) from pgdispatch.signals s
         where not exists (select from pgdispatch.workflow_execution_queue q where q.execution_id = s.execution_id))
      + (select count(*) from pgdispatch.stop_requests s
         where not exists (select from pgdispatch.workflow_execution_queue q where q.execution_id = s.execution_id))
      + (select count(*) from pgdispatch.item_failures f
         where not exists (select from pgdispatch.workflow_execution_queue q where q.id = f.item_id))
      + (select count(*) from pgdispatch.enqueue_keys k
         where not exists (select from pgdispatch.workflow_execution_queue q where q.id = k.item_id))
      + (select count(*) from pgdispatch.parked_items p
         where not exists (select from pgdispatch.workflow_execution_queue q where q.id = p.item_id))
      + (select count(*) from pgdispatch.limit_starts s
         where not exists (select from pgdispatch.limits l where l.id = s.limit_id)))::integer
