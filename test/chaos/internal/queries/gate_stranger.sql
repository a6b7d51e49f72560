-- A stranger takes the locks that replicas and enqueuers agree by.
select pg_advisory_lock(pgdispatch.gate_key()), pg_advisory_lock(pgdispatch.gate_key() + 1)
