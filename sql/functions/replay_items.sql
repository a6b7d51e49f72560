-- Inserts a new item for each of these dead letters that is still open, and marks it as replayed. Skips those that are
-- not open, are gone, or have lost their definition. If even_discarded, discarded ones are replayed too.
create or replace function pgdispatch.replay_items(items bigint[], who text, even_discarded boolean default false)
returns table (item_id bigint, replay_id bigint, replay_execution_id uuid)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    old_ids bigint[];
    new_ids bigint[];
begin
    perform pgdispatch.see_to(items, who);

    with letters as materialized (
        select q.id, gen_random_uuid() as execution_id, q.workspace_id, q.workflow_definition_id, q.params, q.priority, q.traceparent,
               q.start_options, q.limit_key
        from pgdispatch.workflow_execution_queue q
        join pgdispatch.workflow_definitions d on d.id = q.workflow_definition_id and d.workspace_id = q.workspace_id
        left join pgdispatch.dead_letter_marks m on m.item_id = q.id
        left join pgdispatch.workflow_execution_queue r on r.id = m.replay_id
        where q.id = any (items) and q.status = 'FAILED'
          and (m.item_id is null or r.status = 'CANCELLED' or (even_discarded and m.mark = 'DISCARDED'))
    ), made as (
        insert into pgdispatch.workflow_execution_queue as n
            (execution_id, workspace_id, workflow_definition_id, params, priority, traceparent, start_options, limit_key)
        select l.execution_id, l.workspace_id, l.workflow_definition_id, l.params, l.priority, l.traceparent, l.start_options, l.limit_key
        from letters l
        order by l.id
        returning n.id, n.execution_id
    ), marked as (
        insert into pgdispatch.dead_letter_marks as k (item_id, mark, marked_by, replay_id)
        select l.id, 'REPLAYED', who, n.id
        from made n
        join letters l on l.execution_id = n.execution_id
        on conflict (item_id) do update
        set mark = excluded.mark, marked_at = excluded.marked_at, marked_by = excluded.marked_by, replay_id = excluded.replay_id
        returning k.item_id, k.replay_id
    )
    select array_agg(m.item_id), array_agg(m.replay_id) into old_ids, new_ids from marked m;

    update pgdispatch.enqueue_keys k
    set item_id = x.replay_id
    from unnest(old_ids, new_ids) as x (item_id, replay_id)
    where k.item_id = x.item_id;

    -- An insert may not set replay_of, or any client could.
    return query
    update pgdispatch.workflow_execution_queue n
    set replay_of = x.item_id
    from unnest(old_ids, new_ids) as x (item_id, replay_id)
    where n.id = x.replay_id
    returning x.item_id, n.id, n.execution_id;
end;
$$;
