-- How applications enqueue: the function and the view.

-- function: enqueue
-- Enqueues an item, under a key of its workspace if one is given. on_conflict says what happens while the key's item,
-- the one enqueued last under it, waits or runs:
--   skip:     nothing is inserted;
--   replace:  if it waits, it takes the given values;
--   debounce: likewise, and it becomes due after quiet, but at most at_most after it was created.
-- An item that has been claimed is never changed: replace and debounce then insert a new one, to which the key passes.
-- Runs as the caller, whose privileges and policies apply as for a plain insert. The functions that it calls as the
-- owner need the execution ID of an item, which only those who may see the item can know.
drop function if exists pgdispatch.enqueue(uuid, uuid, jsonb, text, text, interval, interval, integer, timestamptz, text, jsonb, text);
drop function if exists pgdispatch.enqueue(uuid, uuid, jsonb, text, text, interval, interval, integer, timestamptz, text, jsonb, text, timestamptz);
create or replace function pgdispatch.enqueue(workspace_id uuid, workflow_definition_id uuid, params jsonb default '{}', key text default null,
    on_conflict text default null, quiet interval default null, at_most interval default null, priority integer default null,
    run_at timestamptz default null, traceparent text default null, start_options jsonb default null,
    limit_key text default null, -- of a new item; one that waits keeps its own
    start_before timestamptz default null,
    workflow_id text default null, -- as limit_key
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
    perform pgdispatch.check_policy(enqueue.key, enqueue.on_conflict, enqueue.quiet, enqueue.at_most, enqueue.run_at,
        enqueue.start_before);
    loop
        if policy is not null then
            seen := pgdispatch.keyed_item(enqueue.workspace_id, enqueue.workflow_definition_id, enqueue.key, given, enqueue.priority,
                enqueue.run_at, enqueue.traceparent, enqueue.start_options, enqueue.start_before);
            select q.id, q.execution_id, q.status, q.workflow_definition_id into held
            from pgdispatch.workflow_execution_queue q
            where q.id = seen and q.status in ('PENDING', 'CLAIMED', 'DISPATCHED');
            if found and held.workflow_definition_id <> enqueue.workflow_definition_id then
                raise exception 'key % is held by item %, which is of workflow definition %', enqueue.key, held.id, held.workflow_definition_id
                    using errcode = 'PGD54', hint = 'Begin the key with the name of its definition.';
            end if;
            if policy = 'skip' then
                action := case when found then 'skipped' end;
            elsif found and held.status = 'PENDING' and pgdispatch.replace_waiting(held.execution_id, given, enqueue.priority,
                    enqueue.run_at, enqueue.traceparent, enqueue.start_options, enqueue.quiet, enqueue.at_most, enqueue.start_before) then
                action := case policy when 'replace' then 'replaced' else 'debounced' end;
            end if;
            if action is not null then
                id := held.id;
                execution_id := held.execution_id;
                return;
            end if;
        end if;
        insert into pgdispatch.workflow_execution_queue as q
            (workspace_id, workflow_definition_id, params, priority, run_at, traceparent, start_options, limit_key, start_before,
             workflow_id)
        values (enqueue.workspace_id, enqueue.workflow_definition_id, given, coalesce(enqueue.priority, 0),
                case when policy = 'debounce' then least(clock_timestamp() + enqueue.quiet, now() + enqueue.at_most)
                     else coalesce(enqueue.run_at, least(now(), clock_timestamp())) end,
                enqueue.traceparent, enqueue.start_options, enqueue.limit_key, enqueue.start_before, enqueue.workflow_id)
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

-- function: enqueue_named
-- Enqueues an item as enqueue does, with the workspace and the definition by their names.
drop function if exists pgdispatch.enqueue_named(text, text, jsonb, text, text, interval, interval, integer, timestamptz, text, jsonb, text);
drop function if exists
    pgdispatch.enqueue_named(text, text, jsonb, text, text, interval, interval, integer, timestamptz, text, jsonb, text, timestamptz);
create or replace function pgdispatch.enqueue_named(workspace text, definition text, params jsonb default '{}', key text default null,
    on_conflict text default null, quiet interval default null, at_most interval default null, priority integer default null,
    run_at timestamptz default null, traceparent text default null, start_options jsonb default null, limit_key text default null,
    start_before timestamptz default null, workflow_id text default null, out id bigint, out execution_id uuid, out action text)
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    select e.id, e.execution_id, e.action
    from pgdispatch.named_definition(workspace, definition) n
    cross join lateral pgdispatch.enqueue(n.workspace_id, n.definition_id, params, key, on_conflict, quiet, at_most, priority,
        run_at, traceparent, start_options, limit_key, start_before, workflow_id) e
$$;

-- function: named_definition
-- For enqueue_named: the IDs behind the names. To a caller whom isolation keeps out of a workspace, it does not exist.
create or replace function pgdispatch.named_definition(workspace text, definition text, out workspace_id uuid, out definition_id uuid)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- a plan made while the tables are small must not scan them later
set jit = off
as $$
#variable_conflict use_column
declare
    found_ids constant uuid[] := array(
        select w.id from pgdispatch.workspaces w
        where w.name = workspace collate "C" and not pgdispatch.kept_out(w.id) limit 2);
begin
    if cardinality(found_ids) = 0 then
        raise exception 'workspace % does not exist', coalesce(quote_literal(workspace), 'null')
            using errcode = 'PGD01', hint = 'Names are case-sensitive. `pgdispatch workspaces create` adds one.';
    elsif cardinality(found_ids) > 1 then
        raise exception 'several workspaces have the name %', quote_literal(workspace)
            using errcode = 'PGD01', hint = 'Call pgdispatch.enqueue with the ID of one.';
    end if;
    workspace_id := found_ids[1];
    select d.id into definition_id from pgdispatch.workflow_definitions d where d.workspace_id = found_ids[1] and d.name = definition;
    if definition_id is null then
        raise exception 'workspace % has no workflow definition %', quote_literal(workspace), coalesce(quote_literal(definition), 'null')
            using errcode = 'PGD02', hint = 'Names are case-sensitive. `pgdispatch definitions create` adds one.';
    end if;
end;
$$;

-- function: enqueue_item
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
         limit_key, start_before, workflow_id)
    values (new.workspace_id, new.workflow_definition_id, new.priority, new.run_at, new.params, new.idempotency_key, new.traceparent,
            new.start_options, new.limit_key, new.start_before, new.workflow_id)
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

-- function: keyed_item
-- For enqueue: the ID of the item that holds a key, or null. Checks the values as an insert would, because there may be
-- none.
drop function if exists pgdispatch.keyed_item(uuid, uuid, text, jsonb, integer, timestamptz, text, jsonb);
create or replace function pgdispatch.keyed_item(workspace uuid, definition uuid, key text, params jsonb, priority integer,
    run_at timestamptz, traceparent text, start_options jsonb, start_before timestamptz) returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- a plan made while the tables are small must not scan them later
set jit = off
as $$
begin
    if pgdispatch.kept_out(workspace) then
        raise sqlstate '42501' using
            message = format('workspace %s is not among those of login %s, or not the one that pgdispatch.workspace_id names',
                coalesce(workspace::text, 'null'), session_user),
            hint = 'Insert it for the login into pgdispatch.workspace_roles, or name it in this transaction: '
                'set local pgdispatch.workspace_id = ''...''.';
    end if;
    perform pgdispatch.check_definition(workspace, definition);
    perform pgdispatch.check_values(params, priority, run_at, null, traceparent);
    perform pgdispatch.check_start_before(start_before, coalesce(run_at, '-infinity'));
    perform pgdispatch.check_input(params, (select d.input from pgdispatch.workflow_definitions d where d.id = definition));
    perform pgdispatch.check_item_options(start_options, definition);
    return (select k.item_id from pgdispatch.enqueue_keys k where k.workspace_id = workspace and k.key = keyed_item.key);
end;
$$;

-- function: take_key
-- For enqueue: gives a key to an item that this transaction has inserted, if the key's item is still the one that was
-- seen. Otherwise deletes the new item and returns false.
create or replace function pgdispatch.take_key(execution uuid, key text, seen bigint, debounced boolean) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- a plan made while the tables are small must not scan them later
set jit = off
as $$
#variable_conflict use_column
begin
    insert into pgdispatch.enqueue_keys as k (workspace_id, key, item_id, debounced_at)
    select q.workspace_id, take_key.key, q.id, case when debounced then clock_timestamp() end
    from pgdispatch.workflow_execution_queue q
    where q.execution_id = execution and q.enqueue_xid = pg_current_xact_id() and not pgdispatch.kept_out(q.workspace_id)
    on conflict (workspace_id, key) do update set item_id = excluded.item_id, debounced_at = excluded.debounced_at
    where k.item_id = seen;
    if not found then
        delete from pgdispatch.workflow_execution_queue q
        where q.execution_id = execution and q.enqueue_xid = pg_current_xact_id() and not pgdispatch.kept_out(q.workspace_id);
        return false;
    end if;
    return true;
end;
$$;

-- function: replace_waiting
-- For enqueue: gives new values to the item that holds a key; null leaves one as it is. quiet and at_most set run_at.
-- Returns false if the item has been claimed, has ended, or has lost its key. Waits for a claim that is under way, and
-- then keeps no lock on what it claimed: that would hold up the replica, and could end in a deadlock.
drop function if exists pgdispatch.replace_waiting(uuid, jsonb, integer, timestamptz, text, jsonb, interval, interval);
create or replace function pgdispatch.replace_waiting(execution uuid, params jsonb, priority integer, run_at timestamptz, traceparent text,
    start_options jsonb, quiet interval, at_most interval, start_before timestamptz) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- a plan made while the tables are small must not scan them later
set jit = off
as $$
declare
    times record; -- as they are now
begin -- with an exception handler, so a subtransaction: a lock is released only at the end of one
    -- The key first: a transaction that tries to take it keeps its lock, and may want the item next. One that has taken it
    -- comes before this call: if it commits, this item has lost its key.
    perform from pgdispatch.enqueue_keys k
    where k.item_id = (select q.id from pgdispatch.workflow_execution_queue q where q.execution_id = execution)
    for no key update;
    perform from pgdispatch.workflow_execution_queue q
    where q.execution_id = execution and q.status = 'PENDING' and not q.outcome_unknown and not pgdispatch.kept_out(q.workspace_id)
    for no key update;
    -- A statement of its own, which sees who holds the key now. The time is that of the call that comes last.
    update pgdispatch.workflow_execution_queue q
    set params = replace_waiting.params,
        priority = coalesce(replace_waiting.priority, q.priority),
        run_at = coalesce(least(clock_timestamp() + quiet, least(q.created_at, clock_timestamp()) + at_most),
                          replace_waiting.run_at, q.run_at),
        created_at = least(q.created_at, clock_timestamp()), -- earlier only if the clock was set back: see bring_back
        traceparent = coalesce(replace_waiting.traceparent, q.traceparent),
        start_options = coalesce(replace_waiting.start_options, q.start_options),
        start_before = coalesce(replace_waiting.start_before, q.start_before)
    where q.execution_id = execution and q.status = 'PENDING' and not q.outcome_unknown and not pgdispatch.kept_out(q.workspace_id)
      and exists (select from pgdispatch.enqueue_keys k where k.item_id = q.id)
    returning q.run_at, q.start_before into times;
    if not found then
        raise sqlstate 'PGD00';
    end if;
    perform pgdispatch.check_start_before(times.start_before, times.run_at);
    -- Says whether run_at is pgdispatch's: see bring_back.
    update pgdispatch.enqueue_keys k
    set debounced_at = case when quiet is not null then clock_timestamp() end
    from pgdispatch.workflow_execution_queue q
    where q.execution_id = execution and k.item_id = q.id
      and (quiet is not null or num_nonnulls(replace_waiting.run_at, k.debounced_at) = 2);
    return true;
exception
    when sqlstate 'PGD00' then return false;
end;
$$;

-- function: check_policy
-- Raises an error that names the first invalid argument of pgdispatch.enqueue among those that concern its key.
drop function if exists pgdispatch.check_policy(text, text, interval, interval, timestamptz);
create or replace function pgdispatch.check_policy(key text, on_conflict text, quiet interval, at_most interval, run_at timestamptz,
    start_before timestamptz) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if length(key) not between 1 and 200 then
        raise exception 'key has % characters: it must have 1 to 200', length(key)
            using errcode = 'PGD50', hint = 'Omit it, or use a hash of the key.';
    elsif key is null and num_nonnulls(on_conflict, quiet, at_most) > 0 then
        raise exception 'on_conflict, quiet and at_most need a key'
            using errcode = 'PGD50', hint = 'Pass a key, such as ''order-17''.';
    elsif on_conflict not in ('skip', 'replace', 'debounce') then
        raise exception 'on_conflict is %: it must be skip, replace or debounce', on_conflict
            using errcode = 'PGD51', hint = 'Omit it for skip.';
    elsif on_conflict is distinct from 'debounce' and num_nonnulls(quiet, at_most) > 0 then
        raise exception 'quiet and at_most are for debounce, and on_conflict is %', coalesce(on_conflict, 'skip')
            using errcode = 'PGD51', hint = 'Pass on_conflict => ''debounce'', or omit quiet and at_most.';
    elsif on_conflict = 'debounce' and (quiet between interval '1 ms' and interval '1 year') is not true then
        raise exception 'quiet is %: it must be from 1 ms to 1 year', coalesce(quiet::text, 'null')
            using errcode = 'PGD52', hint = 'Pass how long no call must come, such as ''5s''.';
    elsif (at_most between quiet and interval '1 year') is false then
        raise exception 'at_most is %: it must be at least quiet, %, and at most 1 year', at_most, quiet
            using errcode = 'PGD52', hint = 'Pass how long the first call may wait, or omit it.';
    elsif on_conflict = 'debounce' and num_nonnulls(run_at, start_before) > 0 then
        raise exception '% must not be given with debounce', case when run_at is null then 'start_before' else 'run_at' end
            using errcode = 'PGD53', hint = 'Omit it: debounce sets run_at to quiet from now.';
    end if;
end;
$$;
