-- Workspace isolation: which workspaces a login may use.

-- function: isolate_workspaces
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

-- function: own_workspaces
-- The workspaces that isolation lets this session use: those that workspace_roles lists for its login and, of these,
-- only the one that it names in pgdispatch.workspace_id, if it names one. A row of no workspace stands for the named one.
-- Of the login, because SET ROLE and a function of another owner do not change it.
-- In plpgsql, which keeps the plan: with isolation every insert calls it.
create or replace function pgdispatch.own_workspaces() returns uuid[]
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    named constant uuid := nullif(current_setting('pgdispatch.workspace_id', true), '')::uuid;
begin
    return array(
        select coalesce(named, r.workspace_id)
        from pgdispatch.workspace_roles r
        where r.role = to_regrole(quote_ident(session_user)) and (num_nonnulls(named, r.workspace_id) = 1 or named = r.workspace_id));
end;
$$;

-- function: kept_out
-- Whether workspace isolation keeps the caller out of this workspace. For functions that run as their owner, to whom no
-- policy applies. current_user is that owner; the setting role is what the caller chose by SET ROLE.
create or replace function pgdispatch.kept_out(workspace uuid) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select c.relrowsecurity
           and not pg_has_role(caller.name, c.relowner, 'usage')
           and not exists (select from unnest(array[to_regrole('pgdispatch_dispatcher'), to_regrole('pgdispatch_operator')]) r (withdraws_for_others)
                           where pg_has_role(caller.name, r.withdraws_for_others, 'usage'))
           and (workspace = any (pgdispatch.own_workspaces())) is not true
    from pg_class c
    cross join (select coalesce(nullif(current_setting('role'), 'none'), session_user)::name as name) caller
    where c.oid = 'pgdispatch.workflow_execution_queue'::regclass;
$$;
