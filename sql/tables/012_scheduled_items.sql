---- tern: disable-tx ----
-- Not in a transaction: the index is built while clients enqueue.

-- The build of an index waits for older transactions, and holds up no writer.
set lock_timeout = 0;

-- The items that were scheduled for later, and those that are retried, the next first. Most items are in it at no time.
drop index concurrently if exists pgdispatch.workflow_execution_queue_scheduled;
create index concurrently workflow_execution_queue_scheduled
    on pgdispatch.workflow_execution_queue (run_at, workspace_id)
    where stage = 'WAITS' and run_at > created_at;

---- create above / drop below ----

drop index pgdispatch.workflow_execution_queue_scheduled;
