-- For delete_finished: items that ended, or dead letters that were handled, later than that are from before the clock was
-- set back: see bring_back. They are kept from now on.
create or replace function pgdispatch.bring_back_ended(ids bigint[], at_time timestamptz, later timestamptz) returns void
language sql volatile
as $$
    update pgdispatch.workflow_execution_queue q set finished_at = at_time
    where q.id = any (array(
        select e.id from pgdispatch.workflow_execution_queue e where e.id = any (ids) and e.finished_at > later for update skip locked));
    update pgdispatch.dead_letter_marks m set marked_at = at_time where m.item_id = any (ids) and m.marked_at > later;
$$;
