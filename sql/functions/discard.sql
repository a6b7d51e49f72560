-- Marks a dead letter as handled without a replay, and returns true if this call did it. Returns false if it was
-- already discarded or replayed.
create or replace function pgdispatch.discard(execution uuid, who text default session_user) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    letter record;
begin
    select q.id, q.status into letter from pgdispatch.workflow_execution_queue q where q.execution_id = execution;
    if not found then
        raise exception 'no item has execution %', coalesce(execution::text, 'null')
            using errcode = 'PGD23', hint = 'Use the execution_id of a row of pgdispatch.dead_letters.';
    elsif letter.status <> 'FAILED' then
        raise exception 'item % is %: only FAILED items can be replayed or discarded', letter.id, letter.status
            using errcode = 'PGD24', hint = 'Use pgdispatch.cancel to withdraw a PENDING item.';
    end if;
    return exists (select from pgdispatch.discard_items(array[letter.id], who));
end;
$$;
