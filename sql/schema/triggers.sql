-- Every trigger. To change one, change its `create or replace`; to remove one, drop it in a numbered migration.
-- A blank line ends a step, which is applied in a transaction of its own: see migrate.replaceTriggers.

create or replace trigger refuse_change
after update of id, execution_id, workspace_id, workflow_definition_id, created_at, enqueue_xid,
    params, priority, run_at, idempotency_key, traceparent, start_options, limit_key, start_before,
    workflow_id
on pgdispatch.workflow_execution_queue
for each row
execute function pgdispatch.refuse_change();

-- Every statement pays for a condition, so this one covers only what the table's constraint or its indexes would reject
-- with a worse message. See item_stage().
create or replace trigger refuse_item
before insert on pgdispatch.workflow_execution_queue
for each row
when (new.status <> 'PENDING' or octet_length(new.idempotency_key) > 800 or octet_length(new.limit_key) > 800
      or octet_length(new.workflow_id) > 1000)
execute function pgdispatch.refuse_item();

create or replace trigger item_enqueued
after insert on pgdispatch.workflow_execution_queue
referencing new table as enqueued
for each statement
execute function pgdispatch.item_enqueued();

-- The moves of the hand-over concern no workspace but the claim's, so they pay only for the comparison. After, because a
-- trigger before an update has every row locked first, with a WAL record for each. Always, even during replication, so
-- that no limit can be bypassed.
create or replace trigger item_moved
after update on pgdispatch.workflow_execution_queue
for each row
when ((new.stage is distinct from 'HOLDS' or old.status not in ('PENDING', 'CLAIMED')
       or old.status = 'PENDING' and (new.status = 'DISPATCHED' or new.lease_token <= old.lease_token))
      -- Nor the ends of finish_all, which marks them all at once.
      and not (old.status = 'DISPATCHED' and new.status in ('COMPLETED', 'FAILED')
               and current_setting('pgdispatch.marked', true) is not distinct from 'on'))
execute function pgdispatch.item_moved();
alter table pgdispatch.workflow_execution_queue enable always trigger item_moved;

create or replace trigger item_deleted
after delete on pgdispatch.workflow_execution_queue
for each row
when (old.status in ('PENDING', 'CLAIMED', 'DISPATCHED'))
execute function pgdispatch.item_moved();

create or replace trigger workspace_limits_changed
after update on pgdispatch.workspaces
referencing old table as changed
for each statement
execute function pgdispatch.limits_changed();

create or replace trigger workspace_deleted
after delete on pgdispatch.workspaces
referencing old table as changed
for each statement
execute function pgdispatch.limits_changed();

create or replace trigger tier_limits_changed
after update on pgdispatch.workspace_tiers
referencing old table as changed
for each statement
execute function pgdispatch.limits_changed();

create or replace trigger key_limits_added
after insert on pgdispatch.limits
referencing new table as changed
for each statement
execute function pgdispatch.limits_changed();
create or replace trigger key_limits_changed
after update on pgdispatch.limits
referencing new table as changed
for each statement
execute function pgdispatch.limits_changed();
create or replace trigger key_limits_removed
after delete on pgdispatch.limits
referencing old table as changed
for each statement
execute function pgdispatch.limits_changed();

create or replace trigger settings_changed
after update on pgdispatch.settings
for each statement
execute function pgdispatch.limits_changed();

create or replace trigger execution_said
before update of status on pgdispatch.workflow_executions
for each row
when (new.status <> 'RUNNING' and current_setting('pgdispatch.marked', true) is distinct from 'on')
execute function pgdispatch.execution_said();

create or replace trigger end_early
after update of status on pgdispatch.workflow_executions
for each row
when (new.early_outcome is not null)
execute function pgdispatch.end_early();

create or replace trigger item_gone
after delete on pgdispatch.workflow_execution_queue
referencing old table as gone
for each statement
execute function pgdispatch.item_gone();

create or replace trigger enqueue_item
instead of insert on pgdispatch.enqueue
for each row
execute function pgdispatch.enqueue_item();

create or replace trigger refuse_value
before insert or update on pgdispatch.workspaces
for each row
execute function pgdispatch.refuse_value();

create or replace trigger refuse_value
before insert or update on pgdispatch.workspace_tiers
for each row
execute function pgdispatch.refuse_value();

create or replace trigger refuse_value
before insert or update on pgdispatch.workflow_definitions
for each row
execute function pgdispatch.refuse_value();
create or replace trigger refuse_definition
before insert or update on pgdispatch.workflow_definitions
for each row
execute function pgdispatch.refuse_definition();

create or replace trigger refuse_value
before insert or update on pgdispatch.workflow_definition_versions
for each row
execute function pgdispatch.refuse_value();

create or replace trigger refuse_graph
before insert or update of graph on pgdispatch.workflow_definition_versions
for each row
execute function pgdispatch.refuse_graph();
create or replace trigger refuse_graph_cycle
before insert or update of graph on pgdispatch.workflow_definition_versions
for each row
execute function pgdispatch.refuse_graph_cycle();

create or replace trigger refuse_value
before insert or update on pgdispatch.limits
for each row
execute function pgdispatch.refuse_value();

create or replace trigger refuse_value
before insert or update on pgdispatch.settings
for each row
execute function pgdispatch.refuse_value();
