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
            using errcode = 'PGD11', hint = 'Raise it, or set initial_interval, which is 1s by default, to less.';
    elsif versioning ?& '{auto_upgrade,pinned}' then
        raise exception 'start_options.versioning_override has auto_upgrade and pinned'
            using errcode = 'PGD11', hint = 'Leave one of them out.';
    elsif versioning ? 'pinned' and not versioning -> 'pinned' ?& '{deployment_name,build_id}' then
        raise exception 'start_options.versioning_override.pinned lacks deployment_name or build_id'
            using errcode = 'PGD11', hint = 'Name the version that workers report.';
    elsif options -> 'memo' ? 'pgdispatch_execution_id' then
        raise exception 'start_options.memo.pgdispatch_execution_id is set by pgdispatch'
            using errcode = 'PGD11', hint = 'Leave it out.';
    end if;
    for attribute in
        select a.key, octet_length(a.value::text) as size, count(*) over () as attributes
        from jsonb_each(options -> 'search_attributes') a
    loop
        if attribute.attributes > 100 or attribute.size > 2048 then
            raise exception 'start_options.search_attributes has % fields, and one of % bytes as text: Temporal accepts 100, and 2048 bytes each',
                attribute.attributes, attribute.size
                using errcode = 'PGD11', hint = 'Put what no search needs into memo or params.';
        end if;
    end loop;
end;
$$;
