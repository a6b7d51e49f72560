-- Enqueues an item, under a key of its workspace if one is given. on_conflict says what happens while the key's item,
-- the one enqueued last under it, waits or runs:
--   skip:     nothing is inserted;
--   replace:  if it waits, it takes the given values;
--   debounce: likewise, and it becomes due after quiet, but at most at_most after it was created.
-- An item that has been claimed is never changed: replace and debounce then insert a new one, to which the key passes.
-- Runs as the caller, whose privileges and policies apply as for a plain insert. The functions that it calls as the
-- owner need the execution ID of an item, which only those who may see the item can know.
create or replace function pgdispatch.enqueue(workspace_id uuid, workflow_definition_id uuid, params jsonb default '{}', key text default null,
    on_conflict text default null, quiet interval default null, at_most interval default null, priority integer default null,
    run_at timestamptz default null, traceparent text default null, start_options jsonb default null,
    limit_key text default null, -- of a new item; one that waits keeps its own
    out id bigint, out execution_id uuid, out action text)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- a plan made while the tables are small must not scan them later
set jit = off
as $$
#variable_conflict use_column
declare
    policy constant text := case when enqueue.key is not null then coalesce(enqueue.on_conflict, 'skip') end;
    given constant jsonb := coalesce(enqueue.params, '{}');
    seen bigint; -- the key's item
    held record; -- the same, if the caller may see it
begin
    perform pgdispatch.check_policy(enqueue.key, enqueue.on_conflict, enqueue.quiet, enqueue.at_most, enqueue.run_at);
    loop
        if policy is not null then
            seen := pgdispatch.keyed_item(enqueue.workspace_id, enqueue.workflow_definition_id, enqueue.key, given, enqueue.priority,
                enqueue.run_at, enqueue.traceparent, enqueue.start_options);
            select q.id, q.execution_id, q.status, q.workflow_definition_id into held
            from pgdispatch.workflow_execution_queue q
            where q.id = seen and q.status in ('PENDING', 'CLAIMED', 'DISPATCHED');
            if found and held.workflow_definition_id <> enqueue.workflow_definition_id then
                raise exception 'key % is held by item %, which is of workflow definition %', enqueue.key, held.id, held.workflow_definition_id
                    using errcode = 'PGD54', hint = 'Use a key of its own for each definition, such as one that begins with its name.';
            end if;
            if policy = 'skip' then
                action := case when found then 'skipped' end;
            elsif found and held.status = 'PENDING' and pgdispatch.replace_waiting(held.execution_id, given, enqueue.priority,
                    enqueue.run_at, enqueue.traceparent, enqueue.start_options, enqueue.quiet, enqueue.at_most) then
                action := case policy when 'replace' then 'replaced' else 'debounced' end;
            end if;
            if action is not null then
                id := held.id;
                execution_id := held.execution_id;
                return;
            end if;
        end if;
        insert into pgdispatch.workflow_execution_queue as q
            (workspace_id, workflow_definition_id, params, priority, run_at, traceparent, start_options, limit_key)
        values (enqueue.workspace_id, enqueue.workflow_definition_id, given, coalesce(enqueue.priority, 0),
                case when policy = 'debounce' then least(clock_timestamp() + enqueue.quiet, now() + enqueue.at_most)
                     else coalesce(enqueue.run_at, least(now(), clock_timestamp())) end,
                enqueue.traceparent, enqueue.start_options, enqueue.limit_key)
        returning q.id, q.execution_id into id, execution_id;
        if id is null then
            return; -- a trigger of the application suppressed the row
        elsif policy is null or pgdispatch.take_key(execution_id, enqueue.key, seen, policy = 'debounce') then
            action := 'inserted';
            return;
        end if;
    end loop; -- another transaction was faster: its item holds the key
end;
$$;
