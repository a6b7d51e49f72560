-- Workflow IDs of items may be this long, in bytes. Temporal accepts up to 1,000; with a store in Postgres or MySQL it keeps
-- 255, and fails each start of a longer one.
alter table pgdispatch.settings add column workflow_id_bytes integer not null default 255
    constraint settings_workflow_id_bytes_check check (workflow_id_bytes between 1 and 1000);

-- gRPC sends the namespace in a header, which has only printable ASCII, and Temporal keeps task queues below /_sys/ for itself.
alter table pgdispatch.workflow_definitions
    add constraint workflow_definitions_namespace_sent check (namespace !~ '[^ -~]'),
    add constraint workflow_definitions_task_queue_sent check (task_queue !~ '^/_sys/');

---- create above / drop below ----

alter table pgdispatch.workflow_definitions
    drop constraint workflow_definitions_namespace_sent,
    drop constraint workflow_definitions_task_queue_sent;
alter table pgdispatch.settings drop column workflow_id_bytes;
