-- Items were deleted, by hand or because their time was over: their history goes with them. The arrays have it read by
-- index, whatever the planner takes a transition table for.
create function pgdispatch.item_gone() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from pgdispatch.item_failures f
    where f.item_id = any (array(select g.id from gone g));
    delete from pgdispatch.dead_letter_marks m
    where m.item_id = any (array(select g.id from gone g))
       -- A replay that never came to its end leaves its dead letter open.
       or m.replay_id = any (array(select g.id from gone g where g.status not in ('COMPLETED', 'FAILED')));
    return null;
end;
$$;
