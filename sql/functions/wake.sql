-- The wake gate: notify only when a dispatcher sleeps. A transaction that notifies takes a lock of the whole database
-- cluster at its commit and holds it across the flush, so commits that notify run one at a time.
--
-- The dispatcher on duty sets the sequence pgdispatch.gate. Whoever commits work takes the gate's lock, shared, holds it until its
-- transaction ends, and then reads the gate: where it says awake, it notifies nobody. A dispatcher that is to sleep sets the gate first,
-- so that whoever comes notifies, and then tries the lock until it is free: nobody is under way who was told otherwise. Then it looks at
-- the table once more. Only a dispatcher may set the gate. Any role can take an advisory lock: a stranger who does has enqueuers notify,
-- or the dispatcher look ever more rarely until the polls suffice.
--
-- Nobody notifies while the cluster's queue of notifications is a tenth full: when it is full, every commit that notifies fails.
-- The polls find what was not announced.
--
-- A notification names the workspaces that it is about, where they are few, by their wake numbers: `number:priority:microseconds` where
-- items wait since then, `number` where something else has changed; empty: look. Any role can notify, so it is a hint and no more.
--
-- A transaction that has notified cannot be prepared (two-phase commit). `set pgdispatch.notify = off` leaves it to the poll.
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
