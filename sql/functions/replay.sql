-- Replays a dead letter as a new item with a new workflow ID, and returns the item that stands for it now. replayed is
-- false if an earlier replay waits, runs, or has completed: nothing is done, and that replay is returned. If the replay
-- failed too, the newest one is replayed.
create or replace function pgdispatch.replay(execution uuid, who text default session_user,
                                  out id bigint, out execution_id uuid, out replayed boolean)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    letter pgdispatch.workflow_execution_queue;
    later bigint;
begin
    select * into letter from pgdispatch.workflow_execution_queue q where q.execution_id = execution;
    if not found then
        raise exception 'no item has execution %', coalesce(execution::text, 'null')
            using errcode = 'PGD23', hint = 'Use the execution_id of a row of pgdispatch.dead_letters.';
    elsif letter.status <> 'FAILED' and (letter.replay_of is null or letter.status = 'CANCELLED') then
        raise exception 'item % is %: only FAILED items can be replayed or discarded', letter.id, letter.status
            using errcode = 'PGD24', hint = 'Insert a new item to run it again.';
    end if;

    -- Follows the chain of replays. A withdrawn replay does not count.
    loop
        select m.replay_id into later
        from pgdispatch.dead_letter_marks m
        left join pgdispatch.workflow_execution_queue r on r.id = m.replay_id
        where m.item_id = letter.id and m.mark = 'REPLAYED' and r.status is distinct from 'CANCELLED';
        exit when not found;
        id := later;
        select * into letter from pgdispatch.workflow_execution_queue q where q.id = later;
        exit when not found; -- it ended and was deleted since
    end loop;
    replayed := false;
    if letter.id is null then
        return;
    end if;
    id := letter.id;
    execution_id := letter.execution_id;
    if letter.status <> 'FAILED' then
        return;
    end if;
    if not exists (select from pgdispatch.workflow_definitions d
                   where d.id = letter.workflow_definition_id and d.workspace_id = letter.workspace_id) then
        raise exception 'workflow definition % of item % was deleted', letter.workflow_definition_id, letter.id
            using errcode = 'PGD02', hint = 'Insert it again with this id, or discard the item.';
    end if;

    select n.replay_id, n.replay_execution_id, true into id, execution_id, replayed
    from pgdispatch.replay_items(array[letter.id], who, even_discarded => true) n;
    if not found then -- a concurrent call has replayed it
        select m.replay_id, r.execution_id, false into id, execution_id, replayed
        from pgdispatch.dead_letter_marks m
        join pgdispatch.workflow_execution_queue r on r.id = m.replay_id
        where m.item_id = letter.id;
    end if;
end;
$$;
