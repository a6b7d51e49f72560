-- Items whose starts fail through no fault that is known to be theirs, with a row each while they wait for another try. No
-- foreign key to the queue, because its check would run at every update there.
create table pgdispatch.start_tries (
    item_id     bigint primary key,
    -- How many starts of it failed while others of its namespace were accepted, and since when.
    tries       integer not null default 0,
    since       timestamptz,
    -- When it was last released with a delay, which set its run_at. See bring_back(). Null means never.
    tried_at    timestamptz,
    -- The person who gave it up. The next replica that claims it looks it up, and then fails it or keeps its workflow.
    given_up_by text
);

---- create above / drop below ----

drop table pgdispatch.start_tries;
