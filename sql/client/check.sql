-- What is valid for an item and its start options. Go reads nothing that is not: see internal/temporal/options.go.

{{- /* A regular expression: the beginning of the workflow IDs that pgdispatch, for other items, and Temporal use. */ -}}
{{ define "reserved_workflow_id" -}}
^(/_sys/|temporal-sys-|execution-(urn:uuid:|[{])?[0-9a-f]{8}(-?[0-9a-f]{4}){4}[0-9a-f]{8}){{ end }}
{{- /* The start options that only workflows have, and those that only activities have. */ -}}
{{ define "workflow_options" -}} {workflow_run_timeout,workflow_task_timeout,memo,versioning_override} {{- end }}
{{ define "activity_options" -}}
{schedule_to_close_timeout,schedule_to_start_timeout,start_to_close_timeout,heartbeat_timeout} {{- end }}

-- function: check_definition
-- Raises an error if an item cannot be of this workspace and definition.
create or replace function pgdispatch.check_definition(workspace uuid, definition uuid) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    of_workspace uuid;
begin
    select d.workspace_id into of_workspace from pgdispatch.workflow_definitions d where d.id = definition;
    if found and of_workspace = workspace then
        return;
    elsif not exists (select from pgdispatch.workspaces w where w.id = workspace) then
        raise exception 'workspace % does not exist', coalesce(workspace::text, 'null')
            using errcode = 'PGD01', hint = 'Insert it into pgdispatch.workspaces first.';
    elsif of_workspace is null then
        raise exception 'workflow definition % does not exist', coalesce(definition::text, 'null')
            using errcode = 'PGD02', hint = 'Insert it into pgdispatch.workflow_definitions first.';
    end if;
    raise exception 'workflow definition % does not belong to workspace %', definition, workspace
        using errcode = 'PGD03', hint = 'Use a definition of this workspace.';
end;
$$;

-- function: check_values
-- Raises an error that names the first invalid value among those that a client set. See check_input for the form of params.
create or replace function pgdispatch.check_values(params jsonb, priority integer, run_at timestamptz, idempotency_key text,
    traceparent text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if octet_length(params::text) > 1966080 then
        raise exception 'params has % bytes as text, which exceeds the limit of 1966080', octet_length(params::text)
            using errcode = 'PGD05', hint = 'Store the value elsewhere and pass its key.';
    elsif priority not between -100 and 100 then
        raise exception 'priority % is out of range: it must be between -100 and 100', priority
            using errcode = 'PGD06', hint = 'Higher priorities run first; the default is 0.';
    elsif run_at not between timestamptz '2000-01-01 00:00Z' and timestamptz '2200-01-01 00:00Z' then
        raise exception 'run_at % is out of range: it must be between the years 2000 and 2200', run_at
            using errcode = 'PGD08', hint = 'Omit run_at to run immediately.';
    elsif length(idempotency_key) not between 1 and 200 then
        raise exception 'idempotency_key has % characters: it must have 1 to 200', length(idempotency_key)
            using errcode = 'PGD09', hint = 'Omit it, or use a hash of the key.';
    elsif traceparent !~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' then
        raise exception 'traceparent is not a valid W3C trace context'
            using errcode = 'PGD10', hint = 'Use 00-<32 hex digits>-<16 hex digits>-01 in lower case, or omit it.';
    end if;
end;
$$;

-- function: check_input
-- Raises an error if params do not have the form that the definition's input needs. Null is an envelope.
create or replace function pgdispatch.check_input(params jsonb, input text) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    n integer; -- from 0
begin
    if coalesce(input, 'envelope') in ('envelope', 'params') then
        if jsonb_typeof(params) <> 'object' then
            raise exception 'params must be a JSON object, not %', jsonb_typeof(params)
                using errcode = 'PGD04', hint = 'Wrap the value: {"value": ...}. To pass arguments, use a definition with the input args.';
        end if;
        return;
    elsif jsonb_typeof(params) <> 'array' or jsonb_array_length(params) > 100 then
        raise exception 'params must be a JSON array of at most 100 elements, because the input of the definition is %, not %', input,
                case jsonb_typeof(params) when 'array' then jsonb_array_length(params) || ' elements' else jsonb_typeof(params) end
            using errcode = 'PGD04', hint = 'Pass an element for each argument; [] for none.';
    elsif input = 'payloads' then
        select min(e.ordinality - 1) into n
        from jsonb_array_elements(params) with ordinality e
        where jsonb_typeof(e.value) <> 'object' or e.value - '{metadata,data}'::text[] <> '{}'
           or pgdispatch.is_base64(coalesce(e.value -> 'data', '""')) is not true
           or jsonb_typeof(coalesce(e.value -> 'metadata', '{}')) <> 'object'
           or exists (select from jsonb_each(case jsonb_typeof(e.value -> 'metadata') when 'object' then e.value -> 'metadata' else '{}' end) m
                      where pgdispatch.is_base64(m.value) is not true);
        if n is not null then
            raise exception 'params[%] is not a payload: it must be {"metadata": {...}, "data": ...} with values in base64', n
                using errcode = 'PGD04', hint = 'Print your data converter''s payloads by protobuf''s JSON.';
        end if;
    end if;
end;
$$;

-- function: is_base64
-- Whether a value is a string in standard base64 with padding.
create or replace function pgdispatch.is_base64(value jsonb) returns boolean
language sql immutable
as $$ select jsonb_typeof(value) = 'string' and length(value #>> '{}') % 4 = 0 and value #>> '{}' ~ '^[A-Za-z0-9+/]*={0,2}$' $$;

-- function: check_limit_key
-- Raises an error if a limit key, which the field names, has no valid length.
create or replace function pgdispatch.check_limit_key(field text, key text) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if length(key) not between 1 and 200 then
        raise exception '% has % characters: a limit key must have 1 to 200', field, length(key)
            using errcode = 'PGD12', hint = 'Omit it, or use a hash of the key.';
    end if;
end;
$$;

-- function: check_workflow_id
-- Raises an error if an item cannot name this workflow ID. gRPC sends it in a header, which has only printable ASCII.
create or replace function pgdispatch.check_workflow_id(workflow_id text) returns void
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    most constant integer := (select s.workflow_id_bytes from pgdispatch.settings s);
begin
    if octet_length(workflow_id) not between 1 and most then
        raise exception 'workflow_id has % bytes: it must have 1 to %', octet_length(workflow_id), most
            using errcode = 'PGD15',
                  hint = 'Omit it, or use a hash of what it names. If your Temporal takes up to 1000: '
                      'pgdispatch settings set workflow-id-bytes 1000';
    elsif workflow_id ~ '[^ -~]' then
        raise exception 'workflow_id has the character %, which Temporal''s clients cannot send: it must be printable ASCII',
            to_json(substring(workflow_id from '[^ -~]'))
            using errcode = 'PGD15', hint = 'Omit it, or encode what it names, for example as base64 or a hash.';
    elsif workflow_id ~* '{{ template "reserved_workflow_id" }}' then
        raise exception 'workflow_id begins with %, which is reserved', substring(workflow_id from '(?i)^(?:execution-|/_sys/|temporal-sys-)')
            using errcode = 'PGD15', hint = 'Begin it with a word of your own, such as order-17.';
    end if;
end;
$$;

-- function: check_start_before
-- Raises an error if an item that is due at run_at could not be claimed before start_before.
create or replace function pgdispatch.check_start_before(start_before timestamptz, run_at timestamptz) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if start_before not between timestamptz '2000-01-01 00:00Z' and timestamptz '2200-01-01 00:00Z' then
        raise exception 'start_before % is out of range: it must be between the years 2000 and 2200', start_before
            using errcode = 'PGD14', hint = 'Omit it to start the item at any time.';
    elsif start_before <= run_at then
        raise exception 'start_before % is not after run_at, %', start_before, run_at
            using errcode = 'PGD14', hint = 'Pass a later time, or omit it to start the item at any time.';
    end if;
end;
$$;

-- function: check_start_options
-- Raises an error that names the first invalid field of start options. of_definition is null for a definition's own
-- options; for an item's they are those of its definition, which say what the item may override. An item's fields
-- replace its definition's as a whole, so options that are each valid are valid together. Returns true.
create or replace function pgdispatch.check_start_options(options jsonb, of_definition jsonb, is_item boolean) returns boolean
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    -- Each field with its kind, its least and its greatest size, or with its own fields. What this accepts, Temporal
    -- accepts with its default limits, and internal/temporal/options.go reads.
    known constant jsonb := '{{ template "start_options" }}';
    field record;
    size numeric;
begin
    if options is null then
        return true;
    elsif jsonb_typeof(options) <> 'object' then
        raise exception 'start_options must be a JSON object, not %', jsonb_typeof(options)
            using errcode = 'PGD11', hint = 'docs/enqueue.md lists the fields.';
    elsif octet_length(options::text) > 65536 then
        raise exception 'start_options has % bytes as text, the limit is 65536', octet_length(options::text)
            using errcode = 'PGD11', hint = 'Pass large values in params.';
    elsif jsonb_path_exists(options, '$.**{100}') then
        raise exception 'start_options is nested deeper than 100' using errcode = 'PGD11', hint = 'Pass deep values in params.';
    end if;
    for field in
        with recursive f (name, value, spec) as (
            select o.key, o.value, known -> o.key from jsonb_each(options) o
            union all
            select f.name || '.' || i.key, i.value, f.spec -> i.key
            from f, jsonb_each(case when jsonb_typeof(f.value) = 'object' then f.value else '{}' end) i
            where jsonb_typeof(f.spec) = 'object'
        )
        select f.name, f.value, case jsonb_typeof(f.spec) when 'object' then 'object' else f.spec ->> 0 end as kind,
               (f.spec ->> 1)::numeric as low, (f.spec ->> 2)::numeric as high
        from f
    loop
        size := pgdispatch.start_option_size(field.kind, field.value);
        if field.kind is null then
            raise exception 'start_options has no field %', left(field.name, 100)
                using errcode = 'PGD11', hint = 'docs/enqueue.md lists the fields.';
        elsif size is null or size not between field.low and field.high and (size <> 0 or field.kind not in ('duration', 'number')) then
            raise exception 'start_options.% is %, it must be %', field.name, left(field.value::text, 100), case field.kind
                    when 'duration' then format('a duration such as 1.5s, 10m or 24h, at most %sh', field.high / 3600)
                    when 'timeout' then format('a duration such as 1.5s, 10m or 24h, not 0 and at most %sh', field.high / 3600)
                    when 'count' then 'a whole number from 0 to ' || field.high
                    when 'number' then format('a number from %s to %s, or 0 for the default', field.low, field.high)
                    when 'string' then format('a string of at most %s bytes', field.high)
                    when 'name' then 'a string of 1 to 1000 bytes without control characters or a prefix that Temporal reserves'
                    when 'values' then format('an object of at most %s bytes as text', field.high)
                    when 'error types' then 'a list of strings, with TemporalTimeout: before StartToClose, ScheduleToClose, '
                        'ScheduleToStart or Heartbeat only'
                    when 'overrides' then 'a list of workflow_type and task_queue' when 'true' then 'true' else 'an object' end
                using errcode = 'PGD11', hint = 'docs/enqueue.md lists the fields.';
        elsif is_item and field.name = 'allow_overrides' then
            raise exception 'start_options.allow_overrides is for a definition, not for an item'
                using errcode = 'PGD11', hint = 'Leave it out.';
        elsif is_item and field.name in ('workflow_type', 'task_queue')
              and not coalesce(of_definition -> 'allow_overrides' ? field.name, false) then
            raise exception 'start_options.% may not be set: the definition does not allow it', field.name
                using errcode = 'PGD11', hint = 'Add it to allow_overrides of the definition.';
        end if;
    end loop;
    perform pgdispatch.check_start_option_groups(options);
    return true;
end;
$$;

-- function: check_item_options
-- Returns true, or raises an error that names the first invalid field of the start options of an item of this definition.
drop function if exists pgdispatch.check_item_options(jsonb, uuid); -- it returned void
create or replace function pgdispatch.check_item_options(options jsonb, definition uuid) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgdispatch.check_start_options(options, d.start_options, true), pgdispatch.check_start_options_of(options, d.kind)
    from pgdispatch.workflow_definitions d
    where d.id = definition;
    return true;
end;
$$;

-- function: check_start_options_of
-- Raises an error that names the first field of valid start options that this kind does not have.
create or replace function pgdispatch.check_start_options_of(options jsonb, kind text) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    of_workflows constant text[] := '{{ template "workflow_options" }}';
    of_activities constant text[] := '{{ template "activity_options" }}';
    field constant text := min(f) from jsonb_object_keys(options) f
        where f = any (case kind when 'activity' then of_workflows else of_activities end);
begin
    if field is not null then
        raise exception 'start_options.% is not for the kind % of the definition', field, kind
            using errcode = 'PGD11', hint = 'docs/enqueue.md lists the fields of each kind.';
    end if;
end;
$$;

-- function: check_start_option_groups
-- For check_start_options: raises an error if fields that are each valid are not valid together.
create or replace function pgdispatch.check_start_option_groups(options jsonb) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    retry constant jsonb := options -> 'retry_policy';
    -- Without an initial interval, or with 0, Temporal takes a second. A maximum of 0 is none.
    initial_interval constant numeric := coalesce(nullif(pgdispatch.start_option_size('duration', retry -> 'initial_interval'), 0), 1);
    versioning constant jsonb := options -> 'versioning_override';
    attribute record;
begin
    if nullif(pgdispatch.start_option_size('duration', retry -> 'maximum_interval'), 0) < initial_interval then
        raise exception 'start_options.retry_policy.maximum_interval is %, which is less than initial_interval', retry -> 'maximum_interval'
            using errcode = 'PGD11', hint = 'Raise it, or lower initial_interval (default 1s).';
    elsif versioning ?& '{auto_upgrade,pinned}' then
        raise exception 'start_options.versioning_override has auto_upgrade and pinned'
            using errcode = 'PGD11', hint = 'Leave one of them out.';
    elsif versioning ? 'pinned' and not versioning -> 'pinned' ?& '{deployment_name,build_id}' then
        raise exception 'start_options.versioning_override.pinned lacks deployment_name or build_id'
            using errcode = 'PGD11', hint = 'Name the version that workers report.';
    elsif options -> 'memo' ?| '{pgdispatch_execution_id,pgdispatch_queue_item_id,pgdispatch_workspace_id,pgdispatch_workflow_definition_id}' then
        raise exception 'start_options.memo has a field that pgdispatch sets'
            using errcode = 'PGD11', hint = 'Leave out the fields that begin with pgdispatch_.';
    end if;
    for attribute in
        select a.key, octet_length(a.value::text) as size, count(*) over () as attributes
        from jsonb_each(options -> 'search_attributes') a
    loop
        if attribute.attributes > 100 or attribute.size > 2048 then
            raise exception 'start_options.search_attributes has % fields, and one of % bytes as text: Temporal accepts 100, and 2048 bytes each',
                attribute.attributes, attribute.size
                using errcode = 'PGD11', hint = 'Move some into memo or params.';
        end if;
    end loop;
end;
$$;

-- function: start_option_size
-- The size of a value of a start option: of a duration in seconds, of a list in elements, of a number itself, of anything
-- else in bytes. Null if the value is not of this kind.
create or replace function pgdispatch.start_option_size(kind text, value jsonb) returns numeric
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    words constant text := value #>> '{}';
    type constant text := jsonb_typeof(value);
begin
    if kind in ('object', 'values') and type = 'object' or kind = 'string' and type = 'string' then
        return octet_length(words);
    elsif kind = 'name' and type = 'string' and words !~ '[[:cntrl:]]|^/_sys/|^temporal-sys-per-ns-' then
        return octet_length(words);
    elsif kind in ('duration', 'timeout') and type = 'string' and words ~ '^[0-9]{1,9}([.][0-9]{1,6})?(ms|s|m|h)$' then
        return rtrim(words, 'hms')::numeric * case ltrim(words, '0123456789.') when 'ms' then 0.001 when 's' then 1 when 'm' then 60 else 3600 end;
    elsif kind = 'number' and type = 'number' or kind = 'count' and type = 'number' and words ~ '^[0-9]{1,10}$' then
        return words::numeric;
    elsif kind = 'true' and value = 'true' then
        return 1;
    elsif kind = 'overrides' and type = 'array' and value <@ '["workflow_type", "task_queue"]' then
        return jsonb_array_length(value);
    elsif kind = 'error types' and type = 'array' and not exists (
        select from jsonb_array_elements(value) e
        where jsonb_typeof(e) <> 'string'
           or e #>> '{}' ~ '^TemporalTimeout:(?!(StartToClose|ScheduleToClose|ScheduleToStart|Heartbeat)$)'
    ) then
        return jsonb_array_length(value);
    end if;
    return null;
end;
$$;
