-- After an insert: every definition must exist and belong to its workspace, each workspace's lane gets a hint, and a
-- dispatcher is woken. One check a statement, by reading only: a foreign key would lock the workspace's row in every
-- enqueuing transaction. A definition that is deleted later fails its items when they are claimed.
create function pgdispatch.item_enqueued() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    bad record;
begin
    select e.workspace_id, e.workflow_definition_id, w.id is null as no_workspace, d.id is null as no_definition
    into bad
    from enqueued e
    left join pgdispatch.workspaces w on w.id = e.workspace_id
    left join pgdispatch.workflow_definitions d on d.id = e.workflow_definition_id
    where w.id is null or d.id is null or d.workspace_id <> e.workspace_id
    limit 1;

    if not found then
        insert into pgdispatch.lane_hints (workspace_id)
        select distinct e.workspace_id from enqueued e;
        if found then -- not so where "on conflict do nothing" left no row
            perform pgdispatch.wake();
        end if;
        return null;
    end if;

    if bad.no_workspace then
        raise exception 'workspace % does not exist', bad.workspace_id
            using errcode = 'PGD01', hint = 'Insert it into pgdispatch.workspaces first, in this transaction or an earlier one.';
    elsif bad.no_definition then
        raise exception 'workflow definition % does not exist', bad.workflow_definition_id
            using errcode = 'PGD02', hint = 'Insert it into pgdispatch.workflow_definitions first, in this transaction or an earlier one.';
    end if;
    raise exception 'workflow definition % does not belong to workspace %', bad.workflow_definition_id, bad.workspace_id
        using errcode = 'PGD03', hint = 'Use a definition of this workspace.';
end;
$$;
