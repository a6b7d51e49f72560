-- An insert through the view enqueue: takes the columns that a client may set and leaves all others at their defaults,
-- whatever was sent. It runs as the caller, whose privileges and policies apply as for an insert into the table.
create or replace function pgdispatch.enqueue_item() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    new.priority := coalesce(new.priority, 0);
    new.run_at := coalesce(new.run_at, least(now(), clock_timestamp()));
    new.params := coalesce(new.params, '{}');
    insert into pgdispatch.workflow_execution_queue as q
        (workspace_id, workflow_definition_id, priority, run_at, params, idempotency_key, traceparent, start_options,
         limit_key)
    values (new.workspace_id, new.workflow_definition_id, new.priority, new.run_at, new.params, new.idempotency_key, new.traceparent,
            new.start_options, new.limit_key)
    returning q.id, q.execution_id into new.id, new.execution_id;

    -- The row's values, for RETURNING.
    new.status := 'PENDING';
    new.attempt_count := 0;
    new.created_at := now();
    new.last_error := null;
    new.claimed_by := null;
    new.claimed_at := null;
    new.lease_expires_at := null;
    new.dispatched_at := null;
    new.finished_at := null;
    return new;
end;
$$;
