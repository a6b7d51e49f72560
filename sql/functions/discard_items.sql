-- Marks the open ones of these dead letters as discarded, and returns their IDs.
create or replace function pgdispatch.discard_items(items bigint[], who text) returns setof bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgdispatch.see_to(items, who);

    return query
    insert into pgdispatch.dead_letter_marks as k (item_id, mark, marked_by)
    select q.id, 'DISCARDED', who
    from pgdispatch.workflow_execution_queue q
    left join pgdispatch.dead_letter_marks m on m.item_id = q.id
    left join pgdispatch.workflow_execution_queue r on r.id = m.replay_id
    where q.id = any (items) and q.status = 'FAILED' and (m.item_id is null or r.status = 'CANCELLED')
    on conflict (item_id) do update
    set mark = excluded.mark, marked_at = excluded.marked_at, marked_by = excluded.marked_by, replay_id = null
    returning k.item_id;
end;
$$;
