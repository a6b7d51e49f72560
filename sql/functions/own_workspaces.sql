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
