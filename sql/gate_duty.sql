-- reads
-- True if this session is now the one on duty: at most one is, in the database.
select pg_try_advisory_lock(pgdispatch.gate_key() + 1)
