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
        ('workflow_type', 'workflow_definitions', 'bytes', 1, 1000), ('task_queue', 'workflow_definitions', 'bytes', 1, 1000),
        ('namespace', 'workflow_definitions', 'bytes', 1, 1000), ('plan', 'workspaces,workspace_tiers', 'plan', 1, 63),
        ('max_concurrent_workflows', 'workspaces,workspace_tiers', 'number', 0, 100000),
        ('max_burst_workflows', 'workspaces,workspace_tiers', 'number', 0, 100000),
        ('max_starts_per_second', 'workspaces', 'number', 0.0001, 100000), ('max_concurrent', 'limits', 'number', 0, 100000),
        ('max_attempts', 'workflow_definitions', 'number', 1, 100), ('version', 'workflow_definition_versions', 'number', 1, 2147483647),
        ('execution_timeout', 'workflow_definitions', 'seconds', 1, 315576000), ('max_claims', 'settings', 'number', 0, 100000),
        ('result_bytes', 'settings', 'number', 0, 65536), ('retention', 'settings', 'seconds', 60, 3155760000),
        ('dead_letter_retention', 'settings', 'seconds', 60, 3155760000), ('priority_aging', 'settings', 'seconds', 0, 3155760000)
    ) f (name, tables, kind, low, high)
    cross join lateral (
        select f.name, row ->> f.name as value, case f.kind
            when 'text' then format('of %s to %s characters, without control characters', f.low, f.high)
            when 'bytes' then format('of %s to %s bytes, without control characters', f.low, f.high)
            when 'plan' then 'of 1 to 63 capital letters, digits and _, the first a letter'
            when 'seconds' then format('from %s s to %s days', f.low, trunc(f.high / 86400))
            else format('from %s to %s', f.low, f.high) end as must
    ) c
    where tg_table_name = any (string_to_array(f.tables, ',')) and c.value is not null and not case f.kind
        when 'text' then length(c.value) between f.low and f.high and c.value !~ '[[:cntrl:]]'
        when 'bytes' then octet_length(c.value) between f.low and f.high and c.value !~ '[[:cntrl:]]'
        when 'plan' then c.value ~ '^[A-Z][A-Z0-9_]{0,62}$'
        when 'seconds' then extract(epoch from c.value::interval) between f.low and f.high
        else c.value::numeric between f.low and f.high end
    limit 1;
    if found then
        raise exception '% of % is %: it must be %', wrong.name, tg_table_name, left(row ->> wrong.name, 100), wrong.must
            using errcode = '23514', hint = 'Pass another value, or leave the column out for its default.',
                  schema = 'pgdispatch', table = tg_table_name, column = wrong.name;
    end if;
    return new;
end;
$$;
