-- Sends a signal to an execution's workflow if the caller's transaction commits, and returns the signal's id. Replicas
-- deliver an execution's signals in the order of their ids: at once, or after the start if the workflow has not been
-- started yet.
create or replace function pgdispatch.signal(execution_id uuid, name text, payload jsonb default null) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    known record;
    signal_id bigint;
begin
    if name is null or octet_length(name) not between 1 and 1000 or name ~ '[[:cntrl:]]' then
        raise exception 'the name of a signal must have 1 to 1000 bytes and no control characters'
            using errcode = 'PGD40', hint = 'Use the name that the workflow listens to.';
    elsif octet_length(payload::text) > 1966080 then
        raise exception 'payload has % bytes as text, which exceeds the limit of 1966080', octet_length(payload::text)
            using errcode = 'PGD41', hint = 'Temporal accepts 2 MiB. Store the value elsewhere and pass its key.';
    end if;
    select q.status, e.finished_at, q.enqueue_xid = pg_current_xact_id_if_assigned() as is_new into known
    from (select signal.execution_id as id) x
    left join pgdispatch.workflow_execution_queue q on q.execution_id = x.id
    left join pgdispatch.workflow_executions e on e.id = x.id
    where num_nonnulls(q.id, e.id) > 0 and not pgdispatch.kept_out(coalesce(q.workspace_id, e.workspace_id));
    if not found then
        raise exception 'no item has execution %', coalesce(signal.execution_id::text, 'null')
            using errcode = 'PGD23', hint = 'Use the execution_id of a row of pgdispatch.workflow_execution_queue.';
    elsif known.finished_at is not null or known.status in ('COMPLETED', 'FAILED', 'CANCELLED') then
        raise exception 'execution % has ended and takes no signals', signal.execution_id
            using errcode = 'PGD42', hint = 'Check the status of its item. Replay it if it is FAILED, or insert a new item.';
    end if;
    -- A new item is not started before this transaction commits.
    insert into pgdispatch.signals as s (execution_id, name, payload, next_try_at)
    values (signal.execution_id, signal.name, signal.payload, case when known.is_new then 'infinity' else clock_timestamp() end)
    returning s.id into signal_id;
    if current_setting('pgdispatch.notify', true) is distinct from 'off' and {{ template "parts/room.sql" }} then
        perform pg_notify('pgdispatch_signal', '');
    end if;
    return signal_id;
end;
$$;
