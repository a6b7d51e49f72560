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
    elsif kind = 'duration' and type = 'string' and words ~ '^[0-9]{1,9}(\.[0-9]{1,6})?(ms|s|m|h)$' then
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
