-- Keeps each enqueuer to the workspace that its session names in pgdispatch.workspace_id, or no longer does. Whoever owns the
-- table, and a dispatcher, an operator and a reader, see every row as before; a role that is none of these sees none.
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
        -- In a sub-select, so that it is read once a statement and not once a row.
        create policy own_workspace on pgdispatch.workflow_execution_queue to pgdispatch_enqueuer
            using (workspace_id = (select nullif(current_setting('pgdispatch.workspace_id', true), '')::uuid));
        alter table pgdispatch.workflow_execution_queue enable row level security;
    else
        alter table pgdispatch.workflow_execution_queue disable row level security;
    end if;
end;
$$;
