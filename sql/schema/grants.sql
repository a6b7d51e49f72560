-- What each role may do. When you add a table, view, sequence or function, add its grants here and run `make golden`: a
-- test compares every privilege of every role with testdata/privileges.golden.
--
-- owner:      everything. Migrates; adds workspaces and definitions.
-- operator:   what a reader does, and what the commands and the web view change: settings, plans, limits, pauses, dead
--             letters, waiting items, stop requests, signals. It cannot change a definition or an item, nor the admin log.
-- dispatcher: only what `pgdispatch run` does. It cannot change a definition, a limit or what an item carries.
-- enqueuer:   inserts items with a client's own columns, finds them again, withdraws them while they wait, and sends
--             signals.
-- reader:     reads everything, including the params of items.
revoke all on schema pgdispatch from pgdispatch_dispatcher, pgdispatch_enqueuer, pgdispatch_operator, pgdispatch_reader;
revoke all on all tables in schema pgdispatch from pgdispatch_dispatcher, pgdispatch_enqueuer, pgdispatch_operator, pgdispatch_reader;
revoke all on all sequences in schema pgdispatch from pgdispatch_dispatcher, pgdispatch_enqueuer, pgdispatch_operator, pgdispatch_reader;
-- Functions that only earlier versions have keep their grants: replicas of those versions call them until they are replaced.
do $$
begin
    execute (select format('revoke all on function %s from pgdispatch_dispatcher, pgdispatch_enqueuer, pgdispatch_operator, pgdispatch_reader',
                           string_agg(p.oid::regprocedure::text, ', '))
             from pg_proc p
             where p.pronamespace = 'pgdispatch'::regnamespace and p.proname in ({{ . }}));
end;
$$;

grant usage on schema pgdispatch to pgdispatch_dispatcher, pgdispatch_enqueuer, pgdispatch_operator, pgdispatch_reader;

-- Needed if the tables could not be given to the owner; see roles.sql.
grant all on schema pgdispatch to pgdispatch_owner;
grant all on all tables in schema pgdispatch to pgdispatch_owner;
grant all on all sequences in schema pgdispatch to pgdispatch_owner;
grant all on all routines in schema pgdispatch to pgdispatch_owner;

-- reader; the dispatcher, whose web view shows the same; and the operator. The operator is not a member of the readers,
-- because the role that migrates may always grant privileges on the schema, but not always a membership.
grant select on all tables in schema pgdispatch to pgdispatch_reader, pgdispatch_dispatcher, pgdispatch_operator;
grant select on all sequences in schema pgdispatch to pgdispatch_reader, pgdispatch_dispatcher, pgdispatch_operator;
-- with it, anybody could forge valid tokens
revoke select on pgdispatch.callback_key from pgdispatch_reader, pgdispatch_operator;
grant execute on function pgdispatch.missing_in(text, uuid), pgdispatch.vanished(),
    pgdispatch.pending_count(uuid), pgdispatch.queue_depth(integer), pgdispatch.error_kind(text),
    pgdispatch.queue_counts(integer), pgdispatch.waiting_queues_of(uuid[]), pgdispatch.longest_waiting(bigint),
    pgdispatch.waiting_queues(uuid, integer, text), pgdispatch.arrived_queues(xid8, uuid, integer, text),
    pgdispatch.arrivals(pg_snapshot, pg_snapshot, integer),
    pgdispatch.waiting_of(uuid, integer), pgdispatch.waiting_counts(uuid[], integer), pgdispatch.holders_of(uuid, integer),
    pgdispatch.waiting_among(uuid[], integer), pgdispatch.unanswered(bigint),
    pgdispatch.limits_in_use(bigint, bigint), pgdispatch.limits_used(bigint, bigint), pgdispatch.key_waiting(text, uuid, integer),
    pgdispatch.key_items(text, bigint),
    pgdispatch.starts_left(bigint, integer[], interval[], timestamptz),
    pgdispatch.paused_by(boolean, integer), pgdispatch.burst_limit(integer, integer),
    pgdispatch.hidden_tables(), pgdispatch.system_identifier()
    to pgdispatch_reader, pgdispatch_dispatcher, pgdispatch_operator;

-- roles that write items or executions: the tables' checks of a row and of a move
grant execute on function
    pgdispatch.item_stage(text, boolean, text, timestamptz, timestamptz, timestamptz, timestamptz, text),
    pgdispatch.refuse_item_times(timestamptz, timestamptz, timestamptz)
    to pgdispatch_dispatcher, pgdispatch_enqueuer, pgdispatch_operator;

-- enqueuer
grant insert (workspace_id, workflow_definition_id, priority, run_at, params, idempotency_key, traceparent, start_options, limit_key,
              start_before, workflow_id),
      select (id, execution_id, workspace_id, workflow_definition_id, status, idempotency_key, workflow_id)
    on pgdispatch.workflow_execution_queue to pgdispatch_enqueuer;
grant insert, select on pgdispatch.enqueue to pgdispatch_enqueuer;
grant execute on function pgdispatch.cancel(uuid), pgdispatch.own_workspaces(), pgdispatch.signal(uuid, text, jsonb),
    pgdispatch.signal_workflow(uuid, text, text, jsonb) to pgdispatch_enqueuer;
-- those that enqueue calls; the ones that run as the owner need an execution ID, as cancel does
grant execute on function
    pgdispatch.enqueue(uuid, uuid, jsonb, text, text, interval, interval, integer, timestamptz, text, jsonb, text, timestamptz, text),
    pgdispatch.enqueue_named(text, text, jsonb, text, text, interval, interval, integer, timestamptz, text, jsonb, text, timestamptz, text),
    pgdispatch.named_definition(text, text), pgdispatch.check_policy(text, text, interval, interval, timestamptz, timestamptz),
    pgdispatch.keyed_item(uuid, uuid, text, jsonb, integer, timestamptz, text, jsonb, timestamptz),
    pgdispatch.replace_waiting(uuid, jsonb, integer, timestamptz, text, jsonb, interval, interval, timestamptz), pgdispatch.take_key(uuid, text, bigint, boolean)
    to pgdispatch_enqueuer, pgdispatch_operator;

-- operator: the functions that change items run as the owner, and change nothing else in them
grant delete on pgdispatch.parked_items to pgdispatch_operator;
grant insert (item_id, given_up_by), update (given_up_by) on pgdispatch.start_tries to pgdispatch_operator;
grant update (given_up_by) on pgdispatch.missing_executions to pgdispatch_operator;
grant update (run_at),
      insert (workspace_id, workflow_definition_id, priority, run_at, params, idempotency_key, traceparent, start_options, limit_key,
              start_before, workflow_id)
    on pgdispatch.workflow_execution_queue to pgdispatch_operator;
grant update (plan, paused, max_concurrent_workflows, max_starts_per_second, max_burst_workflows) on pgdispatch.workspaces to pgdispatch_operator;
grant insert, update, delete on pgdispatch.limits to pgdispatch_operator;
grant update (max_claims, paused, retention, dead_letter_retention, result_bytes, workflow_id_bytes, notify_ended) on pgdispatch.settings to pgdispatch_operator;
grant insert, update on pgdispatch.installation to pgdispatch_operator;
-- Postgres sets the time and the role
grant insert (who, action, subject, details) on pgdispatch.admin_log to pgdispatch_operator;
grant execute on function
    pgdispatch.cancel(uuid), pgdispatch.check_values(jsonb, integer, timestamptz, text, text), pgdispatch.check_input(jsonb, text),
    pgdispatch.is_base64(jsonb), pgdispatch.check_limit_key(text, text), pgdispatch.check_workflow_id(text),
    pgdispatch.check_start_before(timestamptz, timestamptz),
    pgdispatch.check_start_options(jsonb, jsonb, boolean), pgdispatch.check_item_options(jsonb, uuid),
    pgdispatch.check_start_options_of(jsonb, text), pgdispatch.check_start_option_groups(jsonb), pgdispatch.start_option_size(text, jsonb),
    pgdispatch.check_rates(integer[], interval[]), pgdispatch.row_change(jsonb, jsonb),
    pgdispatch.discard(uuid, text), pgdispatch.discard_items(bigint[], text),
    pgdispatch.replay(uuid, text), pgdispatch.replay_items(bigint[], text, boolean),
    pgdispatch.request_cancel(uuid, text, text), pgdispatch.request_stop(uuid, text, text, text), pgdispatch.request_terminate(uuid, text, text),
    pgdispatch.signal(uuid, text, jsonb), pgdispatch.signal_workflow(uuid, text, text, jsonb), pgdispatch.resend_signal(bigint)
    to pgdispatch_operator;
-- A database that was isolated before this role existed has a policy that does not name it.
select pgdispatch.isolate_workspaces(true)
from pg_class c
where c.oid = 'pgdispatch.workflow_execution_queue'::regclass and c.relrowsecurity
  and not exists (select from pg_policy p where p.polrelid = c.oid and 'pgdispatch_operator'::regrole = any (p.polroles));

-- dispatcher: items, executions and their failures
grant update (status, run_at, attempt_count, failure_count, lost_lease_count, last_error, claimed_by, claimed_at, lease_expires_at,
              lease_token, outcome_unknown, dispatched_at, finished_at)
    on pgdispatch.workflow_execution_queue to pgdispatch_dispatcher;
grant insert, update on pgdispatch.workflow_executions to pgdispatch_dispatcher;
grant insert on pgdispatch.item_failures to pgdispatch_dispatcher;
-- claims
grant insert on pgdispatch.epoch to pgdispatch_dispatcher;
grant insert, update on pgdispatch.rates to pgdispatch_dispatcher;
grant insert, update, delete on pgdispatch.limit_starts to pgdispatch_dispatcher;
grant update on pgdispatch.claim_lock, pgdispatch.close_sweep, pgdispatch.mark_trim to pgdispatch_dispatcher;
grant insert, delete on pgdispatch.marks to pgdispatch_dispatcher;
grant insert, update, delete on pgdispatch.parked_items, pgdispatch.start_tries,
    pgdispatch.missing_executions to pgdispatch_dispatcher;
grant usage, update on pgdispatch.lease_tokens to pgdispatch_dispatcher;
grant select, update on pgdispatch.gate to pgdispatch_dispatcher;
-- what replicas share
grant insert on pgdispatch.installation to pgdispatch_dispatcher;
grant insert, update, delete on pgdispatch.replicas, pgdispatch.activity, pgdispatch.workspace_activity,
    pgdispatch.limit_activity, pgdispatch.stalls to pgdispatch_dispatcher;
grant insert, update on pgdispatch.close_lists to pgdispatch_dispatcher;
grant update on pgdispatch.stall_look, pgdispatch.stop_requests, pgdispatch.signals, pgdispatch.signal_turn to pgdispatch_dispatcher;
grant execute on function
    pgdispatch.cancel(uuid), pgdispatch.check_values(jsonb, integer, timestamptz, text, text), pgdispatch.check_input(jsonb, text),
    pgdispatch.is_base64(jsonb), pgdispatch.check_limit_key(text, text), pgdispatch.check_workflow_id(text),
    pgdispatch.check_start_before(timestamptz, timestamptz),
    pgdispatch.check_start_options(jsonb, jsonb, boolean), pgdispatch.check_item_options(jsonb, uuid),
    pgdispatch.check_start_options_of(jsonb, text), pgdispatch.check_start_option_groups(jsonb), pgdispatch.start_option_size(text, jsonb),
    pgdispatch.announce_ends(uuid[]), pgdispatch.commit_durably(),
    pgdispatch.claim(text, interval, text, text, jsonb), pgdispatch.claim_pick(text, text, pgdispatch.claim_proposal), pgdispatch.lock_claims(),
    pgdispatch.claim_limits(pgdispatch.claim_proposal, timestamptz),
    pgdispatch.claim_key_limits(pgdispatch.claim_entry[], pgdispatch.claim_standing[], timestamptz),
    pgdispatch.lane(text, text), pgdispatch.claim_unanswered(integer, text, pgdispatch.claim_proposal, timestamptz),
    pgdispatch.claim_rows(text, pgdispatch.claim_proposal, pgdispatch.claim_standing[], boolean, integer, timestamptz),
    pgdispatch.claim_rows_around(text, pgdispatch.claim_proposal, integer[], bigint[], timestamptz),
    pgdispatch.claim_debits(pgdispatch.claim_entry[], pgdispatch.claim_standing[], bigint, timestamptz),
    pgdispatch.delete_finished(integer),
    pgdispatch.finish(uuid, text, text, jsonb), pgdispatch.finish_all(uuid[], text[], text[], text[]), pgdispatch.gate_key(),
    pgdispatch.namespaces_in_use(), pgdispatch.keep_house(bigint), pgdispatch.note_limits(timestamptz),
    pgdispatch.marks_due(bigint), pgdispatch.sweep_due(boolean, boolean, integer),
    pgdispatch.requeue(bigint[]),
    pgdispatch.requeue_expired(integer), pgdispatch.cancel_late(integer), pgdispatch.withdraw_late(bigint[]),
    pgdispatch.sweep_items(boolean, bigint[]), pgdispatch.result_of(text),
    pgdispatch.bring_back(integer), pgdispatch.take_stops(integer),
    pgdispatch.next_signals(bigint[], integer[], text[], text[], text[], uuid[], integer),
    pgdispatch.settle_signals(bigint[], integer[], text[], text[], text[], uuid[]), pgdispatch.trim_marks(bigint), pgdispatch.wake(text),
    pgdispatch.wake_for(uuid[])
    to pgdispatch_dispatcher;
