-- The wake-up gate: whether a commit of work sends a notification. See package notify.

{{- /* Whether a dispatcher sleeps and must be notified. The gate is read under its lock: see wake(). */ -}}
{{ define "sleeps" -}}
current_setting('pgdispatch.notify', true) is distinct from 'off'
           and not (pg_try_advisory_xact_lock_shared(pgdispatch.gate_key()) and coalesce(pg_sequence_last_value('pgdispatch.gate'), 2) = 2)
           and {{ template "room" }}
{{ end }}
{{- /* Whether the notification queue of the cluster has room. The bound is notify.QueueBound. */ -}}
{{ define "room" -}}
pg_notification_queue_usage() < 0.1
{{ end }}
{{- /* Sets the gate, and returns its value. Writes nothing if that is its value already. */ -}}
{{ define "set_gate" -}}
case coalesce(pg_sequence_last_value('pgdispatch.gate'), 2)
        when {{ . }} then {{ . }} else setval('pgdispatch.gate', {{ . }}) end
{{- end }}

-- name: gate_duty
-- reads
-- Returns true if this session is now on duty. At most one session in the database is.
select pg_try_advisory_lock(pgdispatch.gate_key() + 1)

-- name: gate_leave
-- writes the gate
-- Leaves duty and opens the gate, so that nobody notifies. The gate is set before the unlock: otherwise this statement
-- could overwrite what the next on duty sets.
select case {{ template "set_gate" 2 }} when 2 then pg_advisory_unlock(pgdispatch.gate_key() + 1) end

-- name: gate_shut
-- writes the gate
-- From now on, transactions that commit work notify. Returns true once none is open that was told not to.
select case {{ template "set_gate" 1 }} when 1 then pg_try_advisory_xact_lock(pgdispatch.gate_key()) end

-- name: gate_open
-- writes the gate
-- Opens the gate: from now on, nobody notifies.
select {{ template "set_gate" 2 }}

-- name: gate_call
-- reads
-- $1 channel. Calls the other replicas: this one has more work than workers, or nobody is on duty. If the notification
-- queue fills, they find out by polling.
select pg_notify($1, '') where pg_notification_queue_usage() < 0.1

-- name: ping
-- reads
-- $1 channel, $2 payload: a notification to this replica itself, to check that LISTEN still delivers.
select pg_notify($1, $2)

-- function: wake
-- The wake gate: notify only if a dispatcher sleeps. A transaction that notifies takes a lock of the whole database
-- cluster at its commit and holds it across the flush, so commits that notify run one at a time.
--
-- The dispatcher on duty sets the sequence pgdispatch.gate. A transaction that commits work takes the gate's lock in
-- shared mode, holds it until its end, and then reads the gate: if it says awake, the transaction does not notify. A
-- dispatcher that is about to sleep sets the gate first, so that new transactions notify. It then tries the lock until
-- it is free: no transaction that read awake is still open. Then it looks at the table once more. Only a dispatcher may
-- set the gate. Any role can take an advisory lock: a stranger that does makes enqueuers notify, or makes the
-- dispatcher look ever more rarely until the polls suffice.
--
-- Nobody notifies while the cluster's notification queue is at least a tenth full: when it is full, every commit that
-- notifies fails. The polls find what was not announced.
--
-- A notification names the workspaces that it is about by their wake numbers, if they are few:
-- `number:priority:microseconds` if items wait since then, `number` if something else has changed. An empty one means
-- look. Any role can notify, so a notification is only a hint.
--
-- A transaction that has notified cannot be prepared (two-phase commit). `set pgdispatch.notify = off` leaves the work
-- to the poll.
create or replace function pgdispatch.gate_key() returns bigint
language sql immutable parallel safe
return 5786452301907631;

create or replace function pgdispatch.wake(named text default '') returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if {{ template "sleeps" }} then
        perform pg_notify('pgdispatch', named);
    end if;
end;
$$;

-- function: wake_for
-- Notifies about freed slots, if a dispatcher sleeps and items wait for one.
create or replace function pgdispatch.wake_for(workspaces uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    named text;
begin
    if {{ template "sleeps" }} then
        -- Nested, so that an end does not pay for this query while nobody sleeps.
        select string_agg(coalesce((select w.wake_number from pgdispatch.workspaces w where w.id = n.id), 0)::text, ',') into named
        from unnest(workspaces) as n (id)
        -- offset 0 keeps this a lookup for each workspace: a join may read all that waits.
        where exists (select from pgdispatch.workflow_execution_queue q
                      where q.workspace_id = n.id and q.stage = 'WAITS' and q.run_at >= '-infinity' offset 0);
        if named is not null then
            perform pg_notify('pgdispatch', case when cardinality(workspaces) <= 4 then named else '' end);
        end if;
    end if;
end;
$$;
