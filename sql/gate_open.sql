-- reads
-- From now on, nobody notifies.
select pg_advisory_unlock(pgdispatch.gate_key())
