-- What happens in an application's own transaction: refuse what cannot work, leave a hint, wake a dispatcher.
-- None of it takes a lock that another transaction could hold, and none of it reads a row that a dispatcher writes.
{{ template "functions/wake.sql" . }}
{{ template "functions/refuse_item.sql" . }}
{{ template "functions/item_enqueued.sql" . }}
{{ template "functions/leaves_hand_over.sql" . }}
{{ template "functions/item_moved.sql" . }}
{{ template "functions/limits_changed.sql" . }}

-- A condition costs every statement: only what the table's constraint would refuse with a worse message. See functions/item_is_whole.sql.
create trigger refuse_item
before insert on pgdispatch.workflow_execution_queue
for each row
when (new.status <> 'PENDING')
execute function pgdispatch.refuse_item();

create trigger item_enqueued
after insert on pgdispatch.workflow_execution_queue
referencing new table as enqueued
for each statement
execute function pgdispatch.item_enqueued();

-- The moves of the hand-over concern no lane but the claim's, and pay for the comparison only. After, not before: a trigger
-- before an update has every row locked first, with a record in the log for each.
create trigger item_moved
after update on pgdispatch.workflow_execution_queue
for each row
when (pgdispatch.leaves_hand_over(old.status, new.status))
execute function pgdispatch.item_moved();

create trigger item_deleted
after delete on pgdispatch.workflow_execution_queue
for each row
when (old.status in ('PENDING', 'CLAIMED', 'DISPATCHED'))
execute function pgdispatch.item_moved();

create trigger workspace_limits_changed
after update on pgdispatch.workspaces
referencing old table as changed
for each statement
execute function pgdispatch.limits_changed();

create trigger workspace_deleted
after delete on pgdispatch.workspaces
referencing old table as changed
for each statement
execute function pgdispatch.limits_changed();

create trigger tier_limits_changed
after update on pgdispatch.workspace_tiers
referencing old table as changed
for each statement
execute function pgdispatch.limits_changed();

create trigger settings_changed
after update on pgdispatch.settings
for each statement
execute function pgdispatch.limits_changed();

---- create above / drop below ----

drop trigger settings_changed on pgdispatch.settings;
drop trigger tier_limits_changed on pgdispatch.workspace_tiers;
drop trigger workspace_deleted on pgdispatch.workspaces;
drop trigger workspace_limits_changed on pgdispatch.workspaces;
drop trigger item_deleted on pgdispatch.workflow_execution_queue;
drop trigger item_moved on pgdispatch.workflow_execution_queue;
drop trigger item_enqueued on pgdispatch.workflow_execution_queue;
drop trigger refuse_item on pgdispatch.workflow_execution_queue;
drop function pgdispatch.limits_changed();
drop function pgdispatch.item_moved();
drop function pgdispatch.leaves_hand_over(text, text);
drop function pgdispatch.item_enqueued();
drop function pgdispatch.refuse_item();
drop function pgdispatch.wake();
drop function pgdispatch.gate_key();
