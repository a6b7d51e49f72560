---- tern: disable-tx ----
-- Not in a transaction: existing rows are checked while clients write.

-- One row with a time that no replica can read, written past the triggers, would stop each claim, sweep and list that reads
-- it, for all workspaces.

{{ template "function refuse_item_times" . }}

-- Every change of an item evaluates this constraint. So it calls a function only for an item that it rejects.
alter table pgdispatch.workflow_execution_queue drop constraint if exists times_hold;
alter table pgdispatch.workflow_execution_queue add constraint times_hold check (
    least(run_at, created_at, claimed_at, lease_expires_at, dispatched_at, finished_at, start_before)
        >= timestamptz '2000-01-01 00:00Z'
    and greatest(run_at, created_at, claimed_at, lease_expires_at, dispatched_at, finished_at, start_before)
        <= timestamptz '2200-01-01 00:00Z'
    or pgdispatch.refuse_item_times(run_at, created_at, start_before)) not valid;
alter table pgdispatch.workflow_execution_queue validate constraint times_hold;

alter table pgdispatch.workflow_executions drop constraint if exists times_hold;
alter table pgdispatch.workflow_executions add constraint times_hold
    check (least(created_at, first_sent_at, started_at, finished_at, asked_at) >= timestamptz '2000-01-01 00:00Z' and greatest(created_at, first_sent_at, started_at, finished_at, asked_at) <= timestamptz '2200-01-01 00:00Z') not valid;
alter table pgdispatch.workflow_executions validate constraint times_hold;

alter table pgdispatch.replicas drop constraint if exists times_hold;
alter table pgdispatch.replicas add constraint times_hold
    check (least(started_at, renewed_at, expires_at) >= timestamptz '2000-01-01 00:00Z' and greatest(started_at, renewed_at, expires_at) <= timestamptz '2200-01-01 00:00Z') not valid;
alter table pgdispatch.replicas validate constraint times_hold;

alter table pgdispatch.marks drop constraint if exists times_hold;
alter table pgdispatch.marks add constraint times_hold
    check (due between timestamptz '2000-01-01 00:00Z' and timestamptz '2200-01-01 00:00Z') not valid;
alter table pgdispatch.marks validate constraint times_hold;

alter table pgdispatch.rates drop constraint if exists times_hold;
alter table pgdispatch.rates add constraint times_hold
    check (at between timestamptz '2000-01-01 00:00Z' and timestamptz '2200-01-01 00:00Z') not valid;
alter table pgdispatch.rates validate constraint times_hold;

alter table pgdispatch.limit_starts drop constraint if exists times_hold;
alter table pgdispatch.limit_starts add constraint times_hold
    check (until between timestamptz '2000-01-01 00:00Z' and timestamptz '2200-01-01 00:00Z') not valid;
alter table pgdispatch.limit_starts validate constraint times_hold;

alter table pgdispatch.parked_items drop constraint if exists times_hold;
alter table pgdispatch.parked_items add constraint times_hold
    check (least(parked_at, try_at) >= timestamptz '2000-01-01 00:00Z' and greatest(parked_at, try_at) <= timestamptz '2200-01-01 00:00Z') not valid;
alter table pgdispatch.parked_items validate constraint times_hold;

alter table pgdispatch.workspaces drop constraint if exists times_hold;
alter table pgdispatch.workspaces add constraint times_hold
    check (created_at between timestamptz '2000-01-01 00:00Z' and timestamptz '2200-01-01 00:00Z') not valid;
alter table pgdispatch.workspaces validate constraint times_hold;

alter table pgdispatch.workflow_definitions drop constraint if exists times_hold;
alter table pgdispatch.workflow_definitions add constraint times_hold
    check (created_at between timestamptz '2000-01-01 00:00Z' and timestamptz '2200-01-01 00:00Z') not valid;
alter table pgdispatch.workflow_definitions validate constraint times_hold;

alter table pgdispatch.workflow_definition_versions drop constraint if exists times_hold;
alter table pgdispatch.workflow_definition_versions add constraint times_hold
    check (created_at between timestamptz '2000-01-01 00:00Z' and timestamptz '2200-01-01 00:00Z') not valid;
alter table pgdispatch.workflow_definition_versions validate constraint times_hold;

alter table pgdispatch.signals drop constraint if exists times_hold;
alter table pgdispatch.signals add constraint times_hold
    check (least(sent_at, settled_at) >= timestamptz '2000-01-01 00:00Z' and greatest(sent_at, settled_at) <= timestamptz '2200-01-01 00:00Z') not valid;
alter table pgdispatch.signals validate constraint times_hold;

alter table pgdispatch.stop_requests drop constraint if exists times_hold;
alter table pgdispatch.stop_requests add constraint times_hold
    check (least(requested_at, settled_at, next_try_at) >= timestamptz '2000-01-01 00:00Z' and greatest(requested_at, settled_at, next_try_at) <= timestamptz '2200-01-01 00:00Z') not valid;
alter table pgdispatch.stop_requests validate constraint times_hold;

alter table pgdispatch.item_failures drop constraint if exists times_hold;
alter table pgdispatch.item_failures add constraint times_hold
    check (failed_at between timestamptz '2000-01-01 00:00Z' and timestamptz '2200-01-01 00:00Z') not valid;
alter table pgdispatch.item_failures validate constraint times_hold;

alter table pgdispatch.dead_letter_marks drop constraint if exists times_hold;
alter table pgdispatch.dead_letter_marks add constraint times_hold
    check (marked_at between timestamptz '2000-01-01 00:00Z' and timestamptz '2200-01-01 00:00Z') not valid;
alter table pgdispatch.dead_letter_marks validate constraint times_hold;

alter table pgdispatch.enqueue_keys drop constraint if exists times_hold;
alter table pgdispatch.enqueue_keys add constraint times_hold
    check (debounced_at between timestamptz '2000-01-01 00:00Z' and timestamptz '2200-01-01 00:00Z') not valid;
alter table pgdispatch.enqueue_keys validate constraint times_hold;

alter table pgdispatch.start_tries drop constraint if exists times_hold;
alter table pgdispatch.start_tries add constraint times_hold
    check (least(since, tried_at, missing_since, missing_at) >= timestamptz '2000-01-01 00:00Z' and greatest(since, tried_at, missing_since, missing_at) <= timestamptz '2200-01-01 00:00Z') not valid;
alter table pgdispatch.start_tries validate constraint times_hold;

alter table pgdispatch.missing_executions drop constraint if exists times_hold;
alter table pgdispatch.missing_executions add constraint times_hold
    check (least(since, asked_at) >= timestamptz '2000-01-01 00:00Z' and greatest(since, asked_at) <= timestamptz '2200-01-01 00:00Z') not valid;
alter table pgdispatch.missing_executions validate constraint times_hold;

alter table pgdispatch.admin_log drop constraint if exists times_hold;
alter table pgdispatch.admin_log add constraint times_hold
    check (at between timestamptz '2000-01-01 00:00Z' and timestamptz '2200-01-01 00:00Z') not valid;
alter table pgdispatch.admin_log validate constraint times_hold;

alter table pgdispatch.stalls drop constraint if exists times_hold;
alter table pgdispatch.stalls add constraint times_hold
    check (since between timestamptz '2000-01-01 00:00Z' and timestamptz '2200-01-01 00:00Z') not valid;
alter table pgdispatch.stalls validate constraint times_hold;

alter table pgdispatch.installation drop constraint if exists times_hold;
alter table pgdispatch.installation add constraint times_hold
    check (bound_at between timestamptz '2000-01-01 00:00Z' and timestamptz '2200-01-01 00:00Z') not valid;
alter table pgdispatch.installation validate constraint times_hold;

---- create above / drop below ----

alter table pgdispatch.workflow_execution_queue drop constraint times_hold;
alter table pgdispatch.workflow_executions drop constraint times_hold;
alter table pgdispatch.replicas drop constraint times_hold;
alter table pgdispatch.marks drop constraint times_hold;
alter table pgdispatch.rates drop constraint times_hold;
alter table pgdispatch.limit_starts drop constraint times_hold;
alter table pgdispatch.parked_items drop constraint times_hold;
alter table pgdispatch.workspaces drop constraint times_hold;
alter table pgdispatch.workflow_definitions drop constraint times_hold;
alter table pgdispatch.workflow_definition_versions drop constraint times_hold;
alter table pgdispatch.signals drop constraint times_hold;
alter table pgdispatch.stop_requests drop constraint times_hold;
alter table pgdispatch.item_failures drop constraint times_hold;
alter table pgdispatch.dead_letter_marks drop constraint times_hold;
alter table pgdispatch.enqueue_keys drop constraint times_hold;
alter table pgdispatch.start_tries drop constraint times_hold;
alter table pgdispatch.missing_executions drop constraint times_hold;
alter table pgdispatch.admin_log drop constraint times_hold;
alter table pgdispatch.stalls drop constraint times_hold;
alter table pgdispatch.installation drop constraint times_hold;
