-- Sends a signal that was given up again, as a new signal, and deletes the given-up one, so that it is sent again at
-- most once. It goes to its execution or, if that failed and was replayed, to the newest replay; former is its execution
-- before. To the same execution it keeps its request ID and run: Temporal drops it if an earlier try did arrive.
create or replace function pgdispatch.resend_signal(signal_id bigint, out id bigint, out execution_id uuid, out former uuid, out name text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    old pgdispatch.signals;
    later uuid;
begin
    delete from pgdispatch.signals s where s.id = signal_id and s.state = 'GIVEN_UP' returning s.* into old;
    if not found then
        raise exception 'signal % was not given up, or was sent again', coalesce(signal_id::text, 'null')
            using errcode = 'PGD43', hint = 'Use the id of a row of pgdispatch.signals whose state is GIVEN_UP.';
    end if;
    execution_id := old.execution_id;
    loop -- the chain of replays, as in replay
        select r.execution_id into later
        from pgdispatch.workflow_execution_queue q
        join pgdispatch.dead_letter_marks m on m.item_id = q.id and m.mark = 'REPLAYED'
        join pgdispatch.workflow_execution_queue r on r.id = m.replay_id and r.status <> 'CANCELLED'
        where q.execution_id = resend_signal.execution_id;
        exit when not found;
        execution_id := later;
    end loop;
    former := old.execution_id;
    name := old.name;
    id := pgdispatch.signal(execution_id, old.name, old.payload);
    if execution_id = former then
        update pgdispatch.signals s set request_id = old.request_id, run_id = old.run_id where s.id = resend_signal.id;
    end if;
end;
$$;
