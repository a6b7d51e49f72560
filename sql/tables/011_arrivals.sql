-- With the limit key, so that the lines of a transaction that enqueued many items are found by an index step each.
drop index pgdispatch.workflow_execution_queue_arrivals;
create index workflow_execution_queue_arrivals
    on pgdispatch.workflow_execution_queue (enqueue_xid, workspace_id, priority desc, limit_key, run_at)
    where stage = 'WAITS' and enqueue_xid is not null;

---- create above / drop below ----

drop index pgdispatch.workflow_execution_queue_arrivals;
create index workflow_execution_queue_arrivals
    on pgdispatch.workflow_execution_queue (enqueue_xid, workspace_id, priority, run_at)
    where stage = 'WAITS' and enqueue_xid is not null;
