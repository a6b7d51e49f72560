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
    if {{ template "parts/sleeps.sql" }} then
        perform pg_notify('pgdispatch', named);
    end if;
end;
$$;
