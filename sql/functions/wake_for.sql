-- Notifies about freed slots, if a dispatcher sleeps and items wait for one.
create or replace function pgdispatch.wake_for(workspaces uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    named text;
begin
    if {{ template "parts/sleeps.sql" }} then
        -- Nested, so that an end does not pay for this query while nobody sleeps.
        select string_agg(coalesce((select w.wake_number from pgdispatch.workspaces w where w.id = n.id), 0)::text, ',') into named
        from unnest(workspaces) as n (id)
        -- offset 0 keeps this a lookup for each workspace: a join may read all that waits.
        where exists (select from pgdispatch.workflow_execution_queue q
                      where q.workspace_id = n.id and q.stage = 'WAITS' and q.run_at >= '-infinity' offset 0);
        if named is not null then
            perform pg_notify('pgdispatch', case when cardinality(workspaces) <= 4 then named else '' end);
        end if;
    end if;
end;
$$;
