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
