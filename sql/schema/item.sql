-- The life of an item: its transitions, and the triggers that watch over them. See triggers.sql.

-- function: may_move
-- All transitions are defined here. An unchanged status is not a transition and is allowed.
-- In plpgsql, because an SQL function would be inlined into each trigger's condition and parsed by each statement.
create or replace function pgdispatch.may_move(old_status text, new_status text) returns boolean
language plpgsql immutable parallel safe
as $$
begin
    return old_status = new_status or (old_status, new_status) in (
        ('PENDING',    'CLAIMED'),    -- claim: takes a lease, counts the attempt, writes the execution row
        ('PENDING',    'CANCELLED'),  -- withdrawn before it was claimed
        ('CLAIMED',    'DISPATCHED'), -- Temporal has the workflow
        ('CLAIMED',    'PENDING'),    -- released, retried, or lease expired
        ('CLAIMED',    'FAILED'),     -- failed permanently
        ('DISPATCHED', 'COMPLETED'),  -- the workflow completed
        ('DISPATCHED', 'FAILED')      -- it failed, timed out, was cancelled or terminated
    );
end;
$$;

-- function: item_stage
-- The stage of an item, as claims see it: see the column. Rejects an item whose columns do not match its status: this
-- is the table's one constraint, evaluated where the stage is. In plpgsql, because each statement that writes the table
-- would parse a plain expression of this length again. The states of the hand-over come first, because every item
-- passes through them.
create or replace function pgdispatch.item_stage(status text, outcome_unknown boolean, claimed_by text, claimed_at timestamptz,
    lease_expires_at timestamptz, dispatched_at timestamptz, finished_at timestamptz, last_error text) returns text
language plpgsql immutable parallel safe
as $$
begin
    if status = 'CLAIMED' then
        if num_nulls(claimed_by, claimed_at, lease_expires_at) = 0 and num_nonnulls(dispatched_at, finished_at) = 0 then
            return 'HOLDS';
        end if;
    elsif status = 'DISPATCHED' then
        if num_nulls(claimed_at, dispatched_at) = 0 and num_nonnulls(claimed_by, lease_expires_at, finished_at) = 0 and not outcome_unknown then
            return 'HOLDS';
        end if;
    elsif status = 'PENDING' then
        if num_nonnulls(claimed_by, claimed_at, lease_expires_at, dispatched_at, finished_at) = 0 then
            return case when outcome_unknown then 'DOUBT' else 'WAITS' end;
        end if;
        raise exception 'a PENDING item must not have a claim, lease or end: pgdispatch sets them'
            using errcode = 'PGD07',
                  hint = 'Omit claimed_by, claimed_at, lease_expires_at, dispatched_at and finished_at. '
                      'To run a failed item again, use pgdispatch.replay.',
                  constraint = 'a_status_has_what_belongs_to_it';
    elsif status = 'COMPLETED' then
        if num_nulls(claimed_at, dispatched_at, finished_at) = 0 and num_nonnulls(claimed_by, lease_expires_at) = 0 and not outcome_unknown then
            return null;
        end if;
    elsif status = 'FAILED' then
        if num_nulls(claimed_at, finished_at, last_error) = 0 and num_nonnulls(claimed_by, lease_expires_at) = 0 and not outcome_unknown then
            return 'DEAD';
        end if;
    elsif status = 'CANCELLED' then
        if finished_at is not null and num_nonnulls(claimed_by, claimed_at, lease_expires_at, dispatched_at) = 0 and not outcome_unknown then
            return null;
        end if;
    end if;
    raise exception 'columns of the item do not match its status %: see docs/lifecycle.md', coalesce(status, 'null')
        using errcode = 'PGD27', hint = 'Do not update status: use pgdispatch.finish, cancel or replay.',
              constraint = 'a_status_has_what_belongs_to_it';
end;
$$;

-- function: refuse_item_times
-- Part of the constraint times_hold, for an item with a time that cannot be read: names the column, if clients set it.
-- Returns false otherwise.
create or replace function pgdispatch.refuse_item_times(run_at timestamptz, created_at timestamptz, start_before timestamptz)
returns boolean
language plpgsql immutable parallel safe
as $$
declare
    first constant timestamptz := '2000-01-01 00:00Z';
    last constant timestamptz := '2200-01-01 00:00Z';
begin
    if run_at not between first and last then
        raise exception 'run_at % is out of range: it must be between the years 2000 and 2200', run_at
            using errcode = 'PGD08', hint = 'Omit run_at to run immediately.';
    end if;

    if start_before not between first and last then
        raise exception 'start_before % is out of range: it must be between the years 2000 and 2200', start_before
            using errcode = 'PGD14', hint = 'Omit it to start the item at any time.';
    end if;

    if created_at not between first and last then
        raise exception 'an insert must not set status, attempts, errors, claims, leases or times of an item: pgdispatch sets them'
            using errcode = 'PGD07',
                  hint = 'Set only workspace_id, workflow_definition_id, params, priority, run_at, idempotency_key, traceparent, '
                      'start_options, limit_key, start_before, workflow_id.';
    end if;

    return false;
end;
$$;

-- function: item_enqueued
-- After an insert: every row must be valid, and every definition must exist and belong to its workspace. Sets limit keys
-- that the definitions name. Then wakes a dispatcher. One check per statement, because a foreign key would lock the
-- workspace's row in every enqueuing transaction. If a definition is deleted later, its items fail when they are claimed.
create or replace function pgdispatch.item_enqueued() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    item pgdispatch.workflow_execution_queue;
    got_key boolean := false; -- whether an item got its definition's limit key
    woken record;
begin
    -- Finds what check_item must look at, and more: short, because each insert pays for its preparation. A definition
    -- belongs to one existing workspace, so one lookup checks both. Not a join: a plan could start from the definitions,
    -- and would do so forever if the first insert had many rows.
    perform from enqueued e
    where (select d.workspace_id from pgdispatch.workflow_definitions d
           where d.id = e.workflow_definition_id and d.plain) is distinct from e.workspace_id
       or e.execution_id is null or jsonb_typeof(e.params) <> 'object' or octet_length(e.params::text) > 1966080
       or e.priority not between -100 and 100
       or e.run_at not between timestamptz '2000-01-01 00:00Z' and timestamptz '2200-01-01 00:00Z'
       or length(e.idempotency_key) not between 1 and 200
       or length(e.limit_key) not between 1 and 200
       or e.traceparent !~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$'
       or e.start_options is not null and not pgdispatch.check_item_options(e.start_options, e.workflow_definition_id)
       or octet_length(e.workflow_id) not between 1 and 200 or e.workflow_id ~ '[^ -~]'
       or e.workflow_id ~* '{{ template "reserved_workflow_id" }}'
       or e.attempt_count + e.failure_count + e.lost_lease_count + e.lease_token <> 0
       or num_nonnulls(e.last_error, e.replay_of, e.start_before) > 0
       or e.outcome_unknown or e.created_at <> now() or e.enqueue_xid <> pg_current_xact_id()
    limit 1;
    if found then
        for item in
            select e.* from enqueued e
        loop
            got_key := pgdispatch.check_item(item) or got_key;
        end loop;
    end if;

    -- The gate: notify only if a dispatcher sleeps. See wake().
    if {{ template "sleeps" }} then
        select count(*) as levels, bool_or(e.keyed) or got_key as keyed,
               -- Not a join, which could read all workspaces.
               string_agg(format('%s:%s:%s', (select w.wake_number from pgdispatch.workspaces w where w.id = e.workspace_id),
                                 e.priority, (extract(epoch from e.due) * 1000000)::bigint), ',') as named
        into woken
        from (select n.workspace_id, n.priority, min(n.run_at) as due, bool_or(n.limit_key is not null) as keyed
              from enqueued n group by n.workspace_id, n.priority limit 5) e;
        if woken.levels > 0 then -- "on conflict do nothing" may have left no row
            perform pg_notify('pgdispatch', case when woken.levels < 5 and not woken.keyed then woken.named else '' end);
        end if;
    end if;
    return null;
end;
$$;

-- function: check_item
-- For item_enqueued: raises an error that names the first invalid value of a new item. Gives the item the limit key that
-- its definition names if it has none, and returns whether it did.
create or replace function pgdispatch.check_item(item pgdispatch.workflow_execution_queue) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    d pgdispatch.workflow_definitions;
    key text;
begin
    if item.execution_id is null then
        raise exception 'execution_id is null, because its default was dropped'
            using errcode = 'PGD07', hint = 'Run `pgdispatch migrate up`, which restores defaults, and omit the column.';
    end if;
    perform pgdispatch.check_values(item.params, item.priority, item.run_at, item.idempotency_key, item.traceparent);
    perform pgdispatch.check_start_before(item.start_before, item.run_at);
    perform pgdispatch.check_limit_key('limit_key', item.limit_key);
    perform pgdispatch.check_workflow_id(item.workflow_id);
    perform pgdispatch.check_definition(item.workspace_id, item.workflow_definition_id);
    perform pgdispatch.check_item_options(item.start_options, item.workflow_definition_id);
    if item.attempt_count + item.failure_count + item.lost_lease_count + item.lease_token <> 0 or num_nonnulls(item.last_error, item.replay_of) > 0
       or item.outcome_unknown or item.created_at <> now() or item.enqueue_xid <> pg_current_xact_id() then
        raise exception 'an insert must not set status, attempts, errors, claims, leases or times of an item: pgdispatch sets them'
            using errcode = 'PGD07',
                  hint = 'Set only workspace_id, workflow_definition_id, params, priority, run_at, idempotency_key, traceparent, '
                      'start_options, limit_key, start_before, workflow_id.';
    end if;
    -- The next sweep may come too late for it.
    if item.start_before < clock_timestamp() + interval '10 seconds' and {{ template "room" }} then
        perform pg_notify('pgdispatch_late', '');
    end if;
    select f.* into d from pgdispatch.workflow_definitions f where f.id = item.workflow_definition_id;
    perform pgdispatch.check_input(item.params, d.input);
    key := coalesce(d.limit_key, case jsonb_typeof(item.params) when 'object' then item.params ->> d.limit_key_param end);
    if item.limit_key is not null or key is null then
        return false;
    elsif jsonb_typeof(item.params -> d.limit_key_param) in ('object', 'array') then
        raise exception 'params.% is the limit key of workflow definition %, and must be a string, a number or a boolean, not an %',
            d.limit_key_param, d.name, jsonb_typeof(item.params -> d.limit_key_param)
            using errcode = 'PGD12', hint = 'Correct it, leave the field out, or set limit_key.';
    end if;
    perform pgdispatch.check_limit_key(coalesce('params.' || d.limit_key_param, 'limit_key'), key);
    update pgdispatch.workflow_execution_queue q set limit_key = key where q.id = item.id;
    return true;
end;
$$;

-- function: item_moved
-- After every move except those of the hand-over. Rejects invalid transitions. If an item waits again or freed a slot
-- of its workspace, tells the replicas to look at the workspace.
create or replace function pgdispatch.item_moved() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    -- new is null after a delete.
    waits boolean := new.stage is not distinct from 'WAITS';
    freed boolean := old.stage in ('HOLDS', 'DOUBT') and (new.stage in ('HOLDS', 'DOUBT')) is not true;
    ends text := case when old.finished_at is null and new.finished_at is not null then new.status end;
begin
    if not coalesce(old.stage in ('HOLDS', 'DOUBT'), false) and new.stage in ('HOLDS', 'DOUBT') and new.lease_token <= old.lease_token then
        raise exception 'item % cannot take a slot without a claim', old.id
            using errcode = 'PGD20', hint = 'Only pgdispatch''s claim can give an item a slot.';
    elsif current_setting('session_replication_role') = 'replica' then
        return null; -- the move was checked where it was made
    elsif not pgdispatch.may_move(old.status, new.status) then -- null after a delete
        raise exception 'item % is % and cannot become %', old.id, old.status, new.status
            using errcode = 'PGD20', hint = 'docs/lifecycle.md lists the allowed transitions.';
    end if;
    -- Any change of a waiting item matters, unless nobody else can see it yet: a claim that had chosen the row before
    -- skips the new version, and its replica believes that nothing is left.
    if old.status = new.status and not (waits and (old.stage <> 'WAITS' or old.priority <> new.priority or old.run_at <> new.run_at
                                                   or old.enqueue_xid <> pg_current_xact_id()))
       and not (new.stage = 'DOUBT' and old.run_at <> new.run_at) then
        return null; -- nothing that matters to a claim
    end if;
    insert into pgdispatch.marks (workspaces, limit_keys, priority, due, completed, failed, cancelled)
    values (array[old.workspace_id], case when old.limit_key is not null then array[old.limit_key] end,
            case when waits then new.priority end, case when waits then new.run_at end,
            (ends is not distinct from 'COMPLETED')::integer, (ends is not distinct from 'FAILED')::integer,
            (ends is not distinct from 'CANCELLED')::integer);
    if ends is not null and (select s.notify_ended from pgdispatch.settings s) then
        perform pgdispatch.announce_ends(array[old.execution_id]);
    end if;
    if waits or new.stage = 'DOUBT' or freed and old.limit_key is not null then -- others may wait for the key
        perform pgdispatch.wake();
    elsif freed then
        perform pgdispatch.wake_for(array[old.workspace_id]);
    end if;
    return null;
end;
$$;

-- function: item_gone
-- After items were deleted, by hand or by retention: deletes their history. The arrays make the planner use the
-- indexes, whatever it assumes about the transition table.
create or replace function pgdispatch.item_gone() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from pgdispatch.item_failures f
    where f.item_id = any (array(select g.id from gone g));
    delete from pgdispatch.enqueue_keys k where k.item_id = any (array(select g.id from gone g));
    delete from pgdispatch.parked_items p where p.item_id = any (array(select g.id from gone g));
    delete from pgdispatch.start_tries t where t.item_id = any (array(select g.id from gone g));
    delete from pgdispatch.missing_executions e where e.execution_id = any (array(select g.execution_id from gone g));
    -- If an item was deleted while it ran, its workflow must still be stopped and signalled.
    delete from pgdispatch.stop_requests s
    where s.execution_id = any (array(select g.execution_id from gone g where g.status in ('COMPLETED', 'FAILED', 'CANCELLED')));
    delete from pgdispatch.signals s
    where s.execution_id = any (array(
        select g.execution_id from gone g
        where g.status in ('COMPLETED', 'FAILED', 'CANCELLED') or g.status = 'PENDING' and not g.outcome_unknown));
    delete from pgdispatch.dead_letter_marks m
    where m.item_id = any (array(select g.id from gone g))
       -- A replay that was deleted before its end leaves its dead letter open.
       or m.replay_id = any (array(select g.id from gone g where g.status not in ('COMPLETED', 'FAILED')));
    return null;
end;
$$;
