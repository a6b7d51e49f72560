-- An unrelated session takes the locks by which replicas and enqueuers coordinate.
select pg_advisory_lock(pgdispatch.gate_key()), pg_advisory_lock(pgdispatch.gate_key() + 1)
