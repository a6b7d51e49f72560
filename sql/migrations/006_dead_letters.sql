-- Dead letters: what happened to them, replaying and discarding them, and the deletion of what has been finished for long.
-- All of it stands beside the queue, in tables and indexes of its own: an item that succeeds pays for none of it.

-- One row per failure that was counted, written with the count and never changed. No foreign key to the queue: its check
-- would run at every update there.
create table pgdispatch.item_failures (
    item_id   bigint not null,
    -- The item's failure_count with this one. The bound is that of max_attempts, so an item has 100 rows at the most.
    failure   integer not null check (failure between 1 and 100),
    attempt   integer not null,
    failed_at timestamptz not null default clock_timestamp(),
    error     text not null,
    replica   text,
    primary key (item_id, failure)
);

-- Dead letters that somebody has seen to. One without a row here is open.
create table pgdispatch.dead_letter_marks (
    item_id   bigint primary key,
    mark      text not null check (mark in ('REPLAYED', 'DISCARDED')),
    marked_at timestamptz not null default clock_timestamp(),
    marked_by text not null check (length(marked_by) between 1 and 200 and marked_by !~ '[[:cntrl:]]'),
    -- The newest item that replays it. A replay that was CANCELLED leaves its dead letter open.
    replay_id bigint unique,
    constraint only_a_replayed_one_names_its_replay check ((mark = 'REPLAYED') = (replay_id is not null))
);

alter table pgdispatch.settings
    -- How long a finished item is kept; null: for ever.
    add column retention interval
        check (retention between interval '1 minute' and interval '100 years'),
    -- How long a dead letter is kept that nobody has seen to; null: until somebody has, and then for retention.
    add column dead_letter_retention interval
        check (dead_letter_retention between interval '1 minute' and interval '100 years');

-- How far the deletion has come. Whoever has its row locked is the one that deletes.
create table pgdispatch.retention_walk (
    singleton    boolean primary key default true check (singleton),
    -- Items up to this one were looked at in this pass.
    after_id     bigint not null default 0,
    next_pass_at timestamptz not null default '-infinity'
)
with (fillfactor = 50);

insert into pgdispatch.retention_walk default values;

{{ template "functions/item_gone.sql" . }}
{{ template "functions/see_to.sql" . }}
{{ template "functions/replay_items.sql" . }}
{{ template "functions/replay.sql" . }}
{{ template "functions/discard_items.sql" . }}
{{ template "functions/discard.sql" . }}
{{ template "functions/delete_finished.sql" . }}

create trigger item_gone
after delete on pgdispatch.workflow_execution_queue
referencing old table as gone
for each statement
execute function pgdispatch.item_gone();

create index workflow_execution_queue_dead on pgdispatch.workflow_execution_queue (finished_at, id) where status = 'FAILED';

create view pgdispatch.failed_items as
select q.id, q.execution_id, q.workspace_id, q.workflow_definition_id, q.priority, q.params,
       q.attempt_count, q.failure_count, q.last_error, q.created_at, q.dispatched_at, q.finished_at,
       e.status as execution_status, e.run_id,
       q.replay_of,
       m.item_id is null or r.status is not distinct from 'CANCELLED' as open,
       m.mark, m.marked_at, m.marked_by, m.replay_id, r.execution_id as replay_execution_id, r.status as replay_status
from pgdispatch.workflow_execution_queue q
left join pgdispatch.workflow_executions e on e.id = q.execution_id
left join pgdispatch.dead_letter_marks m on m.item_id = q.id
left join pgdispatch.workflow_execution_queue r on r.id = m.replay_id
where q.status = 'FAILED';

comment on view pgdispatch.failed_items is
    'Items that failed for good. open: nobody has replayed or discarded it, or its replay was withdrawn; else mark says which, when and by whom.';

create view pgdispatch.dead_letters as
select f.id, f.execution_id, f.workspace_id, f.workflow_definition_id, f.priority, f.params,
       f.attempt_count, f.failure_count, f.last_error, f.created_at, f.dispatched_at, f.finished_at,
       f.execution_status, f.run_id, f.replay_of
from pgdispatch.failed_items f
where f.open;

comment on view pgdispatch.dead_letters is
    'Items that failed for good and that nobody has seen to. execution_status says how the workflow ended; it is null or FAILED without a run_id where none was started.';

-- Here, because it counts dead letters.
{{ template "functions/queue_depth.sql" . }}

---- create above / drop below ----

drop function pgdispatch.queue_depth(integer);
drop view pgdispatch.dead_letters;
drop view pgdispatch.failed_items;
drop index pgdispatch.workflow_execution_queue_dead;

drop trigger item_gone on pgdispatch.workflow_execution_queue;
drop function pgdispatch.delete_finished(integer);
drop function pgdispatch.discard(uuid, text);
drop function pgdispatch.discard_items(bigint[], text);
drop function pgdispatch.replay(uuid, text);
drop function pgdispatch.replay_items(bigint[], text, boolean);
drop function pgdispatch.see_to(bigint[], text);
drop function pgdispatch.item_gone();
drop table pgdispatch.retention_walk, pgdispatch.dead_letter_marks, pgdispatch.item_failures;
alter table pgdispatch.settings drop column dead_letter_retention, drop column retention;
