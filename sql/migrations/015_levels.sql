-- How much waits, is claimed and runs, minute by minute; and who waits longest, found without a look at every lane.

alter table pgdispatch.activity
    -- At one moment of the minute, as queue_depth says: estimates beyond 10,000. Null: nobody swept in it.
    add column waiting bigint,
    add column claimed bigint,
    add column running bigint;

-- These two hold every lane with items due, each in one of them: those that have room and those that have none. With the
-- workspace, so that those of the same moment have an order, and a page of them an end.
drop index pgdispatch.lanes_aged;
create index lanes_aged on pgdispatch.lanes (waiting_from, workspace_id)
    where active < slots and not paused and ready_priority is not null and waiting_from is not null;
create index lanes_held on pgdispatch.lanes (waiting_from, workspace_id)
    where (active >= slots or paused) and ready_priority is not null and waiting_from is not null;

{{ template "functions/longest_waiting.sql" . }}
{{ template "functions/note_minute.sql" . }}

---- create above / drop below ----

drop function pgdispatch.note_minute();
drop function pgdispatch.longest_waiting(double precision, uuid, bigint);
drop index pgdispatch.lanes_held, pgdispatch.lanes_aged;
create index lanes_aged on pgdispatch.lanes (waiting_from)
    where active < slots and not paused and ready_priority is not null and waiting_from is not null;
alter table pgdispatch.activity drop column running, drop column claimed, drop column waiting;
