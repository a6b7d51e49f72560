---- tern: disable-tx ----
-- Not in a transaction: the index is built while clients enqueue.

-- Items with this key do not start, in a limit's workspace or in any.
alter table pgdispatch.limits add column if not exists paused boolean not null default false;

-- The build of an index waits for older transactions, and holds up no writer.
set lock_timeout = 0;

-- The waiting items of a limit key, the longest due first. Query with a condition on created_at, which keeps it to the
-- queries of operators.
drop index concurrently if exists pgdispatch.workflow_execution_queue_key_waiting;
create index concurrently workflow_execution_queue_key_waiting
    on pgdispatch.workflow_execution_queue (limit_key, run_at)
    where stage = 'WAITS' and limit_key is not null and created_at is not null;

---- create above / drop below ----

drop index pgdispatch.workflow_execution_queue_key_waiting;
alter table pgdispatch.limits drop column paused;
