-- Items were deleted, by hand or because their time was over: their history goes with them. The arrays have it read by
-- index, whatever the planner takes a transition table for.
create or replace function pgdispatch.item_gone() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from pgdispatch.item_failures f
    where f.item_id = any (array(select g.id from gone g));
    delete from pgdispatch.parked_items p where p.item_id = any (array(select g.id from gone g));
    -- The workflow of an item that was deleted while it ran is still to be stopped.
    delete from pgdispatch.stop_requests s
    where s.execution_id = any (array(select g.execution_id from gone g where g.status in ('COMPLETED', 'FAILED', 'CANCELLED')));
    delete from pgdispatch.dead_letter_marks m
    where m.item_id = any (array(select g.id from gone g))
       -- A replay that never came to its end leaves its dead letter open.
       or m.replay_id = any (array(select g.id from gone g where g.status not in ('COMPLETED', 'FAILED')));
    return null;
end;
$$;
