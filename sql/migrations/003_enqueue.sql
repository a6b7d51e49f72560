-- What happens in an application's own transaction: refuse what cannot work, leave a hint, wake a dispatcher.
-- None of it takes a lock that another transaction could hold, and none of it reads a row that a dispatcher writes.
{{ template "functions/wake.sql" . }}
{{ template "functions/refuse_item.sql" . }}
{{ template "functions/item_enqueued.sql" . }}
{{ template "functions/item_moved.sql" . }}
{{ template "functions/limits_changed.sql" . }}

-- The condition is evaluated without calling the function, so a good row pays for the comparison only.
create trigger refuse_item
before insert on pgdispatch.workflow_execution_queue
for each row
when (new.status <> 'PENDING'
      or new.priority not between -100 and 100
      or new.run_at not between timestamptz '2000-01-01 00:00Z' and timestamptz '2200-01-01 00:00Z'
      or jsonb_typeof(new.params) <> 'object'
      or octet_length(new.params::text) > 1966080
      or new.attempt_count <> 0 or new.failure_count <> 0 or new.lost_lease_count <> 0
      or new.last_error is not null
      or new.created_at <> now()
      or new.claimed_by is not null or new.claimed_at is not null or new.lease_expires_at is not null
      or new.lease_token <> 0 or new.outcome_unknown
      or new.dispatched_at is not null or new.finished_at is not null
      or length(new.idempotency_key) not between 1 and 200
      or new.traceparent !~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$')
execute function pgdispatch.refuse_item();

create trigger item_enqueued
after insert on pgdispatch.workflow_execution_queue
referencing new table as enqueued
for each statement
execute function pgdispatch.item_enqueued();

create trigger item_moved
after update on pgdispatch.workflow_execution_queue
for each row
when ((old.holds_slot and not new.holds_slot)
      or (new.status = 'PENDING' and not new.outcome_unknown
          and (old.status <> 'PENDING' or old.outcome_unknown or old.priority <> new.priority or old.run_at <> new.run_at))
      or (new.status = 'PENDING' and new.outcome_unknown and old.status = 'CLAIMED')
      -- Items of lower priority may have stood behind it.
      or (new.status = 'CANCELLED' and old.status = 'PENDING'))
execute function pgdispatch.item_moved();

create trigger item_deleted
after delete on pgdispatch.workflow_execution_queue
for each row
when (old.holds_slot or old.status = 'PENDING')
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
drop function pgdispatch.item_enqueued();
drop function pgdispatch.refuse_item();
drop function pgdispatch.wake();
drop function pgdispatch.gate_key();
