-- After items were deleted, by hand or by retention: deletes their history. The arrays make the planner use the
-- indexes, whatever it assumes about the transition table.
create or replace function pgdispatch.item_gone() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from pgdispatch.item_failures f
    where f.item_id = any (array(select g.id from gone g));
    delete from pgdispatch.enqueue_keys k where k.item_id = any (array(select g.id from gone g));
    delete from pgdispatch.parked_items p where p.item_id = any (array(select g.id from gone g));
    -- If an item was deleted while it ran, its workflow must still be stopped and signalled.
    delete from pgdispatch.stop_requests s
    where s.execution_id = any (array(select g.execution_id from gone g where g.status in ('COMPLETED', 'FAILED', 'CANCELLED')));
    delete from pgdispatch.signals s
    where s.execution_id = any (array(
        select g.execution_id from gone g
        where g.status in ('COMPLETED', 'FAILED', 'CANCELLED') or g.status = 'PENDING' and not g.outcome_unknown));
    delete from pgdispatch.dead_letter_marks m
    where m.item_id = any (array(select g.id from gone g))
       -- A replay that was deleted before its end leaves its dead letter open.
       or m.replay_id = any (array(select g.id from gone g where g.status not in ('COMPLETED', 'FAILED')));
    return null;
end;
$$;
