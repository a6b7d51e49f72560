-- Triggers that refuse a change, with the column and a hint.

-- function: refuse_item
-- Before an insert whose status is not a new item's, or with a key that is too long for an index: the trigger's condition
-- has found that. The statement's own trigger finds the rest, but the constraint and the indexes come before it.
create or replace function pgdispatch.refuse_item() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if length(new.idempotency_key) not between 1 and 200 then
        raise exception 'idempotency_key has % characters: it must have 1 to 200', length(new.idempotency_key)
            using errcode = 'PGD09', hint = 'Omit it, or use a hash of the key.';
    end if;
    perform pgdispatch.check_limit_key('limit_key', new.limit_key);
    perform pgdispatch.check_workflow_id(new.workflow_id);
    raise exception 'an insert must not set status, attempts, errors, claims, leases or times of an item: pgdispatch sets them'
        using errcode = 'PGD07',
              hint = 'Set only workspace_id, workflow_definition_id, params, priority, run_at, idempotency_key, traceparent, '
                  'start_options, limit_key, start_before, workflow_id.';
end;
$$;

-- function: refuse_change
-- After an update that names a client's column: some are fixed, the others keep the limits of the insert.
create or replace function pgdispatch.refuse_change() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if new.id <> old.id or new.execution_id <> old.execution_id or new.workspace_id <> old.workspace_id
       or new.workflow_definition_id <> old.workflow_definition_id
       -- bring_back sets one that is ahead to now
       or new.created_at <> old.created_at and new.created_at not between statement_timestamp() and old.created_at
       or new.enqueue_xid <> old.enqueue_xid or new.workflow_id is distinct from old.workflow_id
       -- item_enqueued gives a new item the key of its definition
       or new.limit_key is distinct from old.limit_key and (old.limit_key is not null or old.enqueue_xid <> pg_current_xact_id()) then
        raise exception 'id, execution_id, workspace_id, workflow_definition_id, limit_key, workflow_id and created_at of item % cannot change',
            old.id
            using errcode = 'PGD21', hint = 'Cancel this item while it is PENDING, and insert a new one.';
    end if;
    if new.start_options is distinct from old.start_options then
        perform pgdispatch.check_item_options(new.start_options, new.workflow_definition_id);
    end if;
    if new.start_before is distinct from old.start_before then
        perform pgdispatch.check_start_before(new.start_before, new.run_at);
    end if;
    perform pgdispatch.check_values(new.params, new.priority, new.run_at, new.idempotency_key, new.traceparent);
    if new.params is distinct from old.params then
        perform pgdispatch.check_input(new.params,
            (select d.input from pgdispatch.workflow_definitions d where d.id = new.workflow_definition_id));
    end if;
    return null;
end;
$$;

-- function: refuse_value
-- Before a row of a table that operators write: names the column whose value its constraints would reject, with a hint.
-- They remain as the last guard, for tables without triggers.
create or replace function pgdispatch.refuse_value() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    wrong record;
    row constant jsonb := to_jsonb(new);
begin
    select c.name, c.must into wrong
    from (values
        ('name', 'workspaces,workflow_definitions', 'text', 1, 200), ('key', 'limits', 'text', 1, 200),
        ('limit_key', 'workflow_definitions', 'text', 1, 200), ('limit_key_param', 'workflow_definitions', 'text', 1, 200),
        ('input', 'workflow_definitions', 'input', 1, 8), ('workflow_id_policy', 'workflow_definitions', 'policy', 1, 12),
        ('kind', 'workflow_definitions', 'kind', 1, 8),
        ('workflow_type', 'workflow_definitions', 'bytes', 1, 1000), ('task_queue', 'workflow_definitions', 'queue', 1, 1000),
        ('namespace', 'workflow_definitions', 'ascii', 1, 1000), ('plan', 'workspaces,workspace_tiers', 'plan', 1, 63),
        ('max_concurrent_workflows', 'workspaces,workspace_tiers', 'number', 0, 100000),
        ('max_burst_workflows', 'workspaces,workspace_tiers', 'number', 0, 100000),
        ('max_starts_per_second', 'workspaces', 'number', 0.0001, 100000), ('max_concurrent', 'limits', 'number', 0, 100000),
        ('max_attempts', 'workflow_definitions', 'number', 1, 100), ('version', 'workflow_definition_versions', 'number', 1, 2147483647),
        ('execution_timeout', 'workflow_definitions', 'seconds', 1, 315576000), ('max_claims', 'settings', 'number', 0, 100000),
        ('result_bytes', 'settings', 'number', 0, 65536), ('workflow_id_bytes', 'settings', 'number', 1, 1000),
        ('retention', 'settings', 'seconds', 60, 3155760000),
        ('dead_letter_retention', 'settings', 'seconds', 60, 3155760000), ('priority_aging', 'settings', 'seconds', 0, 3155760000)
    ) f (name, tables, kind, low, high)
    cross join lateral (
        select f.name, row ->> f.name as value, case f.kind
            when 'text' then format('of %s to %s characters, without control characters', f.low, f.high)
            when 'ascii' then format('of %s to %s characters of printable ASCII', f.low, f.high)
            when 'queue' then format('of %s to %s bytes, without control characters, and not below /_sys/', f.low, f.high)
            when 'bytes' then format('of %s to %s bytes, without control characters', f.low, f.high)
            when 'input' then 'envelope, params, args or payloads'
            when 'policy' then 'reject, reuse or use_existing'
            when 'kind' then 'workflow or activity'
            when 'plan' then 'of 1 to 63 capital letters, digits and _, the first a letter'
            when 'seconds' then format('from %s s to %s days', f.low, trunc(f.high / 86400))
            else format('from %s to %s', f.low, f.high) end as must
    ) c
    where tg_table_name = any (string_to_array(f.tables, ',')) and c.value is not null and not case f.kind
        when 'text' then length(c.value) between f.low and f.high and c.value !~ '[[:cntrl:]]'
        when 'bytes' then octet_length(c.value) between f.low and f.high and c.value !~ '[[:cntrl:]]'
        when 'ascii' then octet_length(c.value) between f.low and f.high and c.value !~ '[^ -~]'
        when 'queue' then octet_length(c.value) between f.low and f.high and c.value !~ '[[:cntrl:]]|^/_sys/'
        when 'input' then c.value in ('envelope', 'params', 'args', 'payloads')
        when 'policy' then c.value in ('reject', 'reuse', 'use_existing')
        when 'kind' then c.value in ('workflow', 'activity')
        when 'plan' then c.value ~ '^[A-Z][A-Z0-9_]{0,62}$'
        when 'seconds' then extract(epoch from c.value::interval) between f.low and f.high
        else c.value::numeric between f.low and f.high end
    limit 1;
    if found then
        raise exception '% of % is %: it must be %', wrong.name, tg_table_name, left(row ->> wrong.name, 100), wrong.must
            using errcode = '23514', hint = 'Correct it, or leave it out for its default.',
                  schema = 'pgdispatch', table = tg_table_name, column = wrong.name;
    end if;
    return new;
end;
$$;

-- function: refuse_definition
-- Before a definition is written: its start options must be those of its kind, an activity needs a timeout, and a kind is
-- fixed, because the items have been checked for it.
create or replace function pgdispatch.refuse_definition() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_op = 'UPDATE' and new.kind <> old.kind then
        raise exception 'kind of workflow definition % is %, and cannot change', old.id, old.kind
            using errcode = 'PGD21', hint = 'Add another definition.';
    elsif jsonb_typeof(new.start_options) = 'object' then
        perform pgdispatch.check_start_options_of(new.start_options, new.kind);
    end if;
    if new.kind = 'activity' and new.execution_timeout is null
       and not coalesce(new.start_options ?| '{schedule_to_close_timeout,start_to_close_timeout}', false) then
        raise exception 'execution_timeout of workflow_definitions is null: an activity needs one'
            using errcode = '23514', hint = 'Set it: it is the schedule-to-close timeout. Or set schedule_to_close_timeout or '
                      'start_to_close_timeout in start_options.',
                  schema = 'pgdispatch', table = tg_table_name, column = 'execution_timeout';
    end if;
    return new;
end;
$$;

-- function: refuse_truncate
-- Before a TRUNCATE of any table: see schema/roles.sql. It would run no trigger of a row. What refers to the rows would
-- stay and, once IDs begin again, belong to others; and no replica would learn of the slots that it frees.
create or replace function pgdispatch.refuse_truncate() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception '% must not be truncated', tg_relid::regclass
        using errcode = 'PGD28', hint = 'Use `pgdispatch items purge`, which deletes items that have ended.';
end;
$$;
