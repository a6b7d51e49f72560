-- The wake gate: notify only when a dispatcher sleeps. A transaction that notifies takes a lock of the whole database
-- cluster at its commit and holds it across the flush, so commits that notify run one at a time.
--
-- The dispatcher on duty holds the gate's lock exclusively while it sleeps. Where the shared try succeeds, nobody sleeps; and
-- because the lock is held until this transaction ends, a dispatcher that wants to sleep waits for it, and then looks at the
-- table once more. Where it fails, a dispatcher sleeps or is about to, and is notified. Any role can take an advisory lock, so
-- a stranger can make enqueuers notify or dispatchers poll; neither loses a row.
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
