-- Raises an error that names the first invalid field of start options. of_definition is null for a definition's own
-- options; for an item's they are those of its definition, which say what the item may override. Returns true.
create or replace function pgdispatch.check_start_options(options jsonb, of_definition jsonb, is_item boolean) returns boolean
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    known constant jsonb := '{
        "workflow_run_timeout": "duration", "workflow_task_timeout": "duration", "search_attributes": "object", "memo": "object",
        "retry_policy": "object", "priority": "object", "versioning_override": "object",
        "static_summary": "string", "static_details": "string", "workflow_type": "name", "task_queue": "name", "allow_overrides": "names",
        "retry_policy.initial_interval": "duration", "retry_policy.maximum_interval": "duration",
        "retry_policy.backoff_coefficient": "number", "retry_policy.maximum_attempts": "count",
        "retry_policy.non_retryable_error_types": "names",
        "priority.priority_key": "count", "priority.fairness_key": "string", "priority.fairness_weight": "number",
        "versioning_override.auto_upgrade": "boolean", "versioning_override.pinned": "object"}';
    field record;
    want text;
    is_right boolean;
begin
    if options is null then
        return true;
    elsif jsonb_typeof(options) <> 'object' then
        raise exception 'start_options must be a JSON object, not %', jsonb_typeof(options)
            using errcode = 'PGD11', hint = 'docs/enqueue.md lists the fields.';
    elsif octet_length(options::text) > 65536 then
        raise exception 'start_options has % bytes as text, the limit is 65536', octet_length(options::text)
            using errcode = 'PGD11', hint = 'Pass large values in params.';
    end if;
    for field in
        select o.key as name, o.value from jsonb_each(options) o
        union all
        select o.key || '.' || i.key, i.value
        from jsonb_each(options) o, jsonb_each(case when jsonb_typeof(o.value) = 'object' then o.value else '{}' end) i
        where o.key in ('retry_policy', 'priority', 'versioning_override')
    loop
        want := known ->> field.name;
        is_right := case want
            when 'duration' then field.value #>> '{}' ~ '^[0-9]{1,9}(\.[0-9]{1,9})?(ms|s|m|h)$' and jsonb_typeof(field.value) = 'string'
            when 'count' then jsonb_typeof(field.value) = 'number' and field.value #>> '{}' ~ '^[0-9]{1,9}$'
            when 'name' then jsonb_typeof(field.value) = 'string' and octet_length(field.value #>> '{}') between 1 and 1000
            when 'names' then jsonb_typeof(field.value) = 'array' and not jsonb_path_exists(field.value, '$[*] ? (@.type() != "string")')
            else want is not null and jsonb_typeof(field.value) = want
        end;
        if want is null then
            raise exception 'start_options has no field %', field.name
                using errcode = 'PGD11', hint = 'docs/enqueue.md lists the fields. The workflow and request IDs cannot be set.';
        elsif not is_right then
            raise exception 'start_options.% is %, it must be %', field.name, left(field.value::text, 100), case want
                    when 'duration' then 'a duration such as 1.5s, 10m or 24h' when 'count' then 'a whole number from 0'
                    when 'name' then 'a string of 1 to 1000 bytes' when 'names' then 'a list of strings'
                    when 'boolean' then 'true or false' when 'object' then 'an object' else 'a ' || want end
                using errcode = 'PGD11', hint = 'docs/enqueue.md lists the fields.';
        elsif is_item and field.name = 'allow_overrides' then
            raise exception 'start_options.allow_overrides is for a definition, not for an item'
                using errcode = 'PGD11', hint = 'Leave it out.';
        elsif is_item and field.name in ('workflow_type', 'task_queue')
              and not coalesce(of_definition -> 'allow_overrides' ? field.name, false) then
            raise exception 'start_options.% may not be set: the definition does not allow it', field.name
                using errcode = 'PGD11', hint = 'Add its name to allow_overrides in the start_options of the definition.';
        end if;
    end loop;
    if options -> 'memo' ? 'pgdispatch_execution_id' then
        raise exception 'start_options.memo.pgdispatch_execution_id is set by pgdispatch'
            using errcode = 'PGD11', hint = 'Leave it out.';
    end if;
    return true;
end;
$$;
