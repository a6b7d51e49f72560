-- Names what an update may not do. Its trigger's condition has found that there is something.
create function pgdispatch.refuse_change() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if not pgdispatch.may_move(old.status, new.status) then
        raise exception 'item % is %, it cannot become %', old.id, old.status, new.status
            using errcode = 'PGD20', hint = 'docs/lifecycle.md has the moves there are.';
    end if;
    raise exception 'id, execution_id, workspace_id, workflow_definition_id and created_at of item % are fixed', old.id
        using errcode = 'PGD21', hint = 'Cancel this item while it is PENDING, and insert another.';
end;
$$;
