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
    known constant jsonb := '{{ template "parts/start_options.json" }}';
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
                using errcode = 'PGD11', hint = 'docs/enqueue.md lists the fields. The workflow and request IDs cannot be set.';
        elsif size is null or size not between field.low and field.high and (size <> 0 or field.kind not in ('duration', 'number')) then
            raise exception 'start_options.% is %, it must be %', field.name, left(field.value::text, 100), case field.kind
                    when 'duration' then format('a duration such as 1.5s, 10m or 24h, at most %sh', field.high / 3600)
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
                using errcode = 'PGD11', hint = 'Add its name to allow_overrides in the start_options of the definition.';
        end if;
    end loop;
    perform pgdispatch.check_start_option_groups(options);
    return true;
end;
$$;
