-- reads
-- Waits for every transaction that was told that nobody sleeps; from then on, whoever commits work notifies.
select pg_advisory_lock(pgdispatch.gate_key())
