-- Raises an error if an item cannot be of this workspace and definition.
create or replace function pgdispatch.check_definition(workspace uuid, definition uuid) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    of_workspace uuid;
begin
    select d.workspace_id into of_workspace from pgdispatch.workflow_definitions d where d.id = definition;
    if found and of_workspace = workspace then
        return;
    elsif not exists (select from pgdispatch.workspaces w where w.id = workspace) then
        raise exception 'workspace % does not exist', coalesce(workspace::text, 'null')
            using errcode = 'PGD01', hint = 'Insert it into pgdispatch.workspaces first, in this transaction or an earlier one.';
    elsif of_workspace is null then
        raise exception 'workflow definition % does not exist', coalesce(definition::text, 'null')
            using errcode = 'PGD02', hint = 'Insert it into pgdispatch.workflow_definitions first, in this transaction or an earlier one.';
    end if;
    raise exception 'workflow definition % does not belong to workspace %', definition, workspace
        using errcode = 'PGD03', hint = 'Use a definition of this workspace.';
end;
$$;
