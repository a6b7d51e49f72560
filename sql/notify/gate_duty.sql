-- reads
-- Returns true if this session is now on duty. At most one session in the database is.
select pg_try_advisory_lock(pgdispatch.gate_key() + 1)
