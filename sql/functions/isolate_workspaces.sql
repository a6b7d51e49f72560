-- Restricts each enqueuer to the workspaces of its login, or lifts the restriction: see own_workspaces.
-- The table's owner, dispatchers, operators and readers still see every row; any other role sees none.
create or replace function pgdispatch.isolate_workspaces(isolated boolean) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set client_min_messages = warning
as $$
begin
    drop policy if exists sees_all on pgdispatch.workflow_execution_queue;
    drop policy if exists own_workspace on pgdispatch.workflow_execution_queue;
    if isolated then
        create policy sees_all on pgdispatch.workflow_execution_queue
            to pgdispatch_owner, pgdispatch_dispatcher, pgdispatch_operator, pgdispatch_reader using (true);
        -- In a sub-select, so that it is read once per statement instead of once per row.
        create policy own_workspace on pgdispatch.workflow_execution_queue to pgdispatch_enqueuer
            using (workspace_id = any ((select pgdispatch.own_workspaces())::uuid[]));
        alter table pgdispatch.workflow_execution_queue enable row level security;
    else
        alter table pgdispatch.workflow_execution_queue disable row level security;
    end if;
end;
$$;
